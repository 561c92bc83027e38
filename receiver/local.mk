# receiver: delta-recv, the replica's end of the wire export.
noinst_LTLIBRARIES += receiver/libreplica.la
receiver_libreplica_la_SOURCES = \
	receiver/manifest.c receiver/manifest.h \
	receiver/replica.c receiver/replica.h \
	receiver/replica-commit.c \
	receiver/replica-history.c receiver/replica-history.h \
	receiver/replica-identity.c \
	receiver/replica-lock.c receiver/replica-private.h \
	receiver/replica-session.c \
	receiver/retain.c receiver/retain.h

plugin_LTLIBRARIES += receiver/nbdkit-delta-recv-plugin.la
receiver_nbdkit_delta_recv_plugin_la_SOURCES = \
	receiver/apply.c receiver/apply.h \
	receiver/assemble.c receiver/assemble.h \
	receiver/budget.c receiver/budget.h \
	receiver/delta-recv.c \
	receiver/disk.c receiver/disk.h \
	receiver/flush.c \
	receiver/image.c receiver/image.h \
	receiver/intervals.c receiver/intervals.h \
	receiver/pages.h \
	receiver/pass.c receiver/pass.h \
	receiver/session.h \
	receiver/session-dir.c \
	receiver/session-file.c \
	receiver/spill.c receiver/spill.h \
	receiver/storage.c receiver/storage.h \
	receiver/writer.c receiver/writer.h
receiver_nbdkit_delta_recv_plugin_la_LDFLAGS = \
	-module -avoid-version -shared -no-undefined \
	-Wl,--version-script=$(top_srcdir)/common/exports.syms
receiver_nbdkit_delta_recv_plugin_la_LIBADD = \
	receiver/libreplica.la qmp-client/libqmp-client.la \
	common/libcommon.la $(LIBNBD_LIBS)

# An independent sender, for tests.
check_PROGRAMS += tests/wire-make
tests_wire_make_SOURCES = tests/wire-make.c
tests_wire_make_LDADD = common/libcommon.la

EXTRA_DIST += tests/test-delta-recv-functions.sh
TESTS += \
	tests/test-delta-recv-crash.sh \
	tests/test-delta-recv-daemon.sh \
	tests/test-delta-recv-dir.sh \
	tests/test-delta-recv-disks.sh \
	tests/test-delta-recv-enospc.sh \
	tests/test-delta-recv-examples.sh \
	tests/test-delta-recv-hostile.sh \
	tests/test-delta-recv-lock.sh \
	tests/test-delta-recv-memory.sh \
	tests/test-delta-recv-movers.sh \
	tests/test-delta-recv-noflush.sh \
	tests/test-delta-recv-session.sh \
	tests/test-delta-recv-shuffle.sh \
	tests/test-delta-recv-sizes.sh \
	tests/test-delta-recv-storage.sh \
	tests/test-delta-recv-target.sh

check_PROGRAMS += tests/test-retain
tests_test_retain_SOURCES = tests/test-retain.c
tests_test_retain_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/receiver
tests_test_retain_LDADD = receiver/libreplica.la
TESTS += tests/test-retain

check_PROGRAMS += tests/test-delta-recv-client
tests_test_delta_recv_client_SOURCES = tests/test-delta-recv-client.c
tests_test_delta_recv_client_LDADD = $(LIBNBD_LIBS)

check_PROGRAMS += tests/test-delta-recv-shuffle
tests_test_delta_recv_shuffle_SOURCES = tests/test-delta-recv-shuffle.c
tests_test_delta_recv_shuffle_LDADD = $(LIBNBD_LIBS)

man_pods += \
	docs/nbdkit-delta-recv-plugin.1.pod \
	docs/nbdsync-formats.5.pod
TESTS += tests/test-sync-sparse-replica.sh
