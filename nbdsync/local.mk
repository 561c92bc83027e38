# nbdsync: the command: coordinator, its two agents, what it tells people.
bin_PROGRAMS += nbdsync/nbdsync
nbdsync_nbdsync_SOURCES = \
	nbdsync/agent-server.c \
	nbdsync/agent.c nbdsync/agent.h \
	nbdsync/chain.c nbdsync/chain.h \
	nbdsync/commands.h \
	nbdsync/compose.c nbdsync/compose.h \
	nbdsync/copy.c nbdsync/copy.h \
	nbdsync/decide.c nbdsync/decide.h \
	nbdsync/differences.c nbdsync/differences.h \
	nbdsync/disks.c \
	nbdsync/evidence.c nbdsync/evidence.h \
	nbdsync/image-map.c nbdsync/image-map.h \
	nbdsync/lines.c nbdsync/lines.h \
	nbdsync/main.c \
	nbdsync/receive.c \
	nbdsync/replica-json.c nbdsync/replica-json.h \
	nbdsync/report.c nbdsync/report.h \
	nbdsync/scratch.c \
	nbdsync/settle.c \
	nbdsync/server.c nbdsync/server.h \
	nbdsync/source-open.c nbdsync/source-pass.c nbdsync/source-plan.c \
	nbdsync/source.c nbdsync/source.h \
	nbdsync/status.c \
	nbdsync/stream.c nbdsync/stream.h \
	nbdsync/sync-options.c nbdsync/sync-options.h \
	nbdsync/sync.c \
	nbdsync/transport.c nbdsync/transport.h
nbdsync_nbdsync_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/receiver
nbdsync_nbdsync_LDADD = receiver/libreplica.la \
	qmp-client/libqmp-client.la common/libcommon.la $(LIBNBD_LIBS)

check_PROGRAMS += tests/test-decide
tests_test_decide_SOURCES = tests/test-decide.c nbdsync/decide.c
tests_test_decide_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/nbdsync
TESTS += tests/test-decide

check_PROGRAMS += tests/test-evidence
tests_test_evidence_SOURCES = tests/test-evidence.c nbdsync/evidence.c
tests_test_evidence_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/nbdsync
tests_test_evidence_LDADD = qmp-client/libqmp-client.la common/libcommon.la
TESTS += tests/test-evidence

TESTS += tests/test-sync-copies.sh tests/test-sync-forget.sh \
	tests/test-sync-machine-ends.sh tests/test-sync-passes.sh \
	tests/test-sync-refuse.sh tests/test-sync-user.sh \
	tests/test-sync-stall.sh
