# nbdkit-filter: delta-send, the source end of the wire export.
filter_LTLIBRARIES += nbdkit-filter/nbdkit-delta-send-filter.la
nbdkit_filter_nbdkit_delta_send_filter_la_SOURCES = \
	nbdkit-filter/bitmap-check.c nbdkit-filter/bitmap-check.h \
	nbdkit-filter/builder.c nbdkit-filter/builder.h \
	nbdkit-filter/delta-send.c \
	nbdkit-filter/frames.c nbdkit-filter/frames.h \
	nbdkit-filter/map-file.c nbdkit-filter/map-file.h \
	nbdkit-filter/pipeline.c nbdkit-filter/pipeline.h \
	nbdkit-filter/plan.c nbdkit-filter/plan.h \
	nbdkit-filter/planner.c nbdkit-filter/planner.h \
	nbdkit-filter/queue.c nbdkit-filter/queue.h \
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

check_PROGRAMS += tests/test-delta-send-client
tests_test_delta_send_client_SOURCES = tests/test-delta-send-client.c
tests_test_delta_send_client_LDADD = $(LIBNBD_LIBS)

check_PROGRAMS += tests/test-delta-send-plan
tests_test_delta_send_plan_SOURCES = \
	tests/test-delta-send-plan.c \
	nbdkit-filter/frames.c nbdkit-filter/plan.c
tests_test_delta_send_plan_CPPFLAGS = \
	$(AM_CPPFLAGS) -I$(top_srcdir)/nbdkit-filter
tests_test_delta_send_plan_LDADD = common/libcommon.la

EXTRA_DIST += tests/test-delta-send-lib.sh
TESTS += \
	tests/test-delta-send-plan \
	tests/test-delta-send-batches.sh \
	tests/test-delta-send-bitmap.sh \
	tests/test-delta-send-changed.sh \
	tests/test-delta-send-error.sh \
	tests/test-delta-send-error-rate.sh \
	tests/test-delta-send-extents.sh \
	tests/test-delta-send-full.sh \
	tests/test-delta-send-killed.sh \
	tests/test-delta-send-levels.sh \
	tests/test-delta-send-local.sh \
	tests/test-delta-send-man.sh \
	tests/test-delta-send-map-walk.sh \
	tests/test-delta-send-memory.sh \
	tests/test-delta-send-order.sh \
	tests/test-delta-send-qmp.sh \
	tests/test-delta-send-refuse.sh \
	tests/test-delta-send-scattered.sh \
	tests/test-delta-send-session.sh \
	tests/test-delta-send-sigterm.sh \
	tests/test-delta-send-sizes.sh \
	tests/test-delta-send-sparse.sh \
	tests/test-delta-send-stats.sh \
	tests/test-delta-send-zero.sh

man_pods += docs/nbdkit-delta-send-filter.1.pod
