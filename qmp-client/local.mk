# qmp-client: QEMU's monitor; bitmaps, spool, precopy, block graph.
noinst_LTLIBRARIES += qmp-client/libqmp-client.la
qmp_client_libqmp_client_la_SOURCES = \
	qmp-client/qmp.c qmp-client/qmp.h
