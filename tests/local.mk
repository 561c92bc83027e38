# tests: what all tests share, and the end-to-end tests; each component
# lists its own.
EXTRA_DIST += .ci/run
EXTRA_DIST += tests/dependencies.sh
EXTRA_DIST += tests/functions.sh
EXTRA_DIST += tests/qmp.py
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
