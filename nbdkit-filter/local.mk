# nbdkit-filter: delta-send, the source end of the wire export.
filter_LTLIBRARIES += nbdkit-filter/nbdkit-delta-send-filter.la
nbdkit_filter_nbdkit_delta_send_filter_la_SOURCES = \
	nbdkit-filter/bitmap-check.c nbdkit-filter/bitmap-check.h \
	nbdkit-filter/builder.c nbdkit-filter/builder.h \
	nbdkit-filter/delta-send.c \
	nbdkit-filter/frames.c nbdkit-filter/frames.h \
	nbdkit-filter/map-file.c \
	nbdkit-filter/map.c nbdkit-filter/map.h \
	nbdkit-filter/pipeline.c nbdkit-filter/pipeline.h \
	nbdkit-filter/plan.c nbdkit-filter/plan.h \
	nbdkit-filter/planner.c nbdkit-filter/planner.h \
	nbdkit-filter/runs.c nbdkit-filter/runs.h \
	nbdkit-filter/session.c nbdkit-filter/session.h \
	nbdkit-filter/stats.c nbdkit-filter/stats.h
nbdkit_filter_nbdkit_delta_send_filter_la_LDFLAGS = \
	-module -avoid-version -shared -no-undefined \
	-Wl,--version-script=$(top_srcdir)/common/exports.syms
nbdkit_filter_nbdkit_delta_send_filter_la_LIBADD = \
	qmp-client/libqmp-client.la common/libcommon.la \
	$(LIBNBD_LIBS)

check_PROGRAMS += tests/wire-apply
tests_wire_apply_SOURCES = tests/wire-apply.c
tests_wire_apply_LDADD = common/libcommon.la
