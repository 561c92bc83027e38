# tests: what all tests share, and the end-to-end tests; each component
# lists its own.
EXTRA_DIST += .ci/run
EXTRA_DIST += tests/asan-early.c tests/dependencies.sh
EXTRA_DIST += tests/functions.sh
EXTRA_DIST += tests/qmp.py tests/qmp-watch.py
EXTRA_DIST += tests/valgrind/nbdkit tests/valgrind/run

# For runtests: all tests, to choose from.
list-tests:
	@echo $(TESTS)
.PHONY: list-tests

check_PROGRAMS += tests/workload
tests_workload_SOURCES = tests/workload.c tests/workload.h \
	tests/workload-write.c tests/workload-check.c
tests_workload_LDADD = common/libcommon.la $(LIBNBD_LIBS)
TESTS += tests/test-sync-checker.sh
EXTRA_DIST += tests/guest/replay.py tests/guest/writer.s bench/mkdisk

# End to end.  The long ones first: two run at a time.
TESTS += tests/test-crash-1.sh
TESTS += tests/test-crash-2.sh
TESTS += tests/test-crash-3.sh
TESTS += tests/test-crash-4.sh
EXTRA_DIST += tests/crash/run tests/crash/points.py tests/crash/failures.py
EXTRA_DIST += tests/crash/machine.py tests/crash/processes.py
EXTRA_DIST += tests/crash/scenario.py tests/crash/template.py
TESTS += tests/test-sync-kvm.sh
TESTS += tests/test-sync-kvm-iothread.sh
TESTS += tests/test-sync-writes.sh
TESTS += tests/test-sync-graphs.sh
TESTS += tests/test-sync-resize.sh
TESTS += tests/test-sync-scratch.sh
TESTS += tests/test-sync-snapshots.sh
TESTS += tests/test-sync-snapshots-stopped.sh
TESTS += tests/test-sync-two-replicas.sh
TESTS += tests/test-sync-movers.sh
TESTS += tests/test-sync-bad-input.sh
TESTS += tests/test-sync-bad-streams.sh
TESTS += tests/test-sync-sizes.sh
TESTS += tests/test-sync-rss.sh
TESTS += tests/test-sync-ssh.sh
TESTS += tests/test-sync-precopy-copied.sh
TESTS += tests/test-sync-precopy-flush.sh
TESTS += tests/test-sync-small-writes.sh
TESTS += tests/test-docs-examples.sh
TESTS += tests/test-docs-options.sh
EXTRA_DIST += tests/kvm.sh tests/sync.sh bench/pipeline
