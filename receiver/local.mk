# receiver: delta-recv, the replica's end of the wire export.
noinst_LTLIBRARIES += receiver/libreplica.la
receiver_libreplica_la_SOURCES = \
	receiver/manifest.c receiver/manifest.h \
	receiver/replica.c receiver/replica.h

plugin_LTLIBRARIES += receiver/nbdkit-delta-recv-plugin.la
receiver_nbdkit_delta_recv_plugin_la_SOURCES = \
	receiver/delta-recv.c
receiver_nbdkit_delta_recv_plugin_la_LDFLAGS = \
	-module -avoid-version -shared -no-undefined \
	-Wl,--version-script=$(top_srcdir)/common/exports.syms
receiver_nbdkit_delta_recv_plugin_la_LIBADD = \
	qmp-client/libqmp-client.la common/libcommon.la \
	$(LIBNBD_LIBS)
