# qmp-client: QEMU's monitor; bitmaps, spool, precopy, block graph.
noinst_LTLIBRARIES += qmp-client/libqmp-client.la
qmp_client_libqmp_client_la_SOURCES = \
	qmp-client/bitmaps.c qmp-client/bitmaps.h \
	qmp-client/block.c qmp-client/block.h \
	qmp-client/daemon.c qmp-client/daemon.h \
	qmp-client/disks.c qmp-client/disks.h \
	qmp-client/flush.c qmp-client/flush.h \
	qmp-client/image.c qmp-client/image.h \
	qmp-client/map-file.c qmp-client/map-file.h \
	qmp-client/peer.c qmp-client/peer.h \
	qmp-client/precopy.c qmp-client/precopy.h \
	qmp-client/qcow2.c qmp-client/qcow2.h \
	qmp-client/qmp.c qmp-client/qmp.h \
	qmp-client/qmp-connect.c \
	qmp-client/reader.c qmp-client/reader.h \
	qmp-client/reserve.c qmp-client/reserve.h \
	qmp-client/spool.c qmp-client/spool.h \
	qmp-client/vhost-flush.c qmp-client/vhost-flush.h

check_PROGRAMS += tests/qmp-tool
tests_qmp_tool_SOURCES = tests/qmp-tool.c
tests_qmp_tool_LDADD = qmp-client/libqmp-client.la common/libcommon.la

TESTS += \
	tests/test-qmp-bitmaps.sh \
	tests/test-qmp-connection.sh \
	tests/test-qmp-daemon.sh \
	tests/test-qmp-disks.sh \
	tests/test-qmp-flush.sh \
	tests/test-qmp-map-file.sh \
	tests/test-qmp-precopy-content.sh \
	tests/test-qmp-precopy.sh \
	tests/test-qmp-reader.sh \
	tests/test-qmp-spool-full.sh \
	tests/test-qmp-spool-undo.sh \
	tests/test-qmp-spool.sh \
	tests/test-qmp-storage-daemon.sh
EXTRA_DIST += tests/test-qmp-server.py tests/test-qmp-writer.py
