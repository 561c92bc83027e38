# nbdkit-filter: delta-send, the source end of the wire export.
filter_LTLIBRARIES += nbdkit-filter/nbdkit-delta-send-filter.la
nbdkit_filter_nbdkit_delta_send_filter_la_SOURCES = \
	nbdkit-filter/delta-send.c
nbdkit_filter_nbdkit_delta_send_filter_la_LDFLAGS = \
	-module -avoid-version -shared -no-undefined \
	-Wl,--version-script=$(top_srcdir)/common/exports.syms
nbdkit_filter_nbdkit_delta_send_filter_la_LIBADD = \
	qmp-client/libqmp-client.la common/libcommon.la \
	$(LIBNBD_LIBS)
