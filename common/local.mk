# common: what every component may use; it uses none of them.
noinst_LTLIBRARIES += common/libcommon.la
common_libcommon_la_SOURCES = \
	common/cleanup.h \
	common/clock.h \
	common/fault.c common/fault.h \
	common/frame.c common/frame.h \
	common/json.c common/json.h \
	common/log.c common/log.h \
	common/map.c common/map.h \
	common/process.c common/process.h \
	common/runs.c common/runs.h \
	common/runs-combine.c \
	common/runtime-dir.c common/runtime-dir.h \
	common/session-record.c common/session-record.h \
	common/vector.h
common_libcommon_la_LIBADD = $(JANSSON_LIBS) $(ZSTD_LIBS) $(XXHASH_LIBS)

check_PROGRAMS += tests/test-frame
tests_test_frame_SOURCES = tests/test-frame.c
tests_test_frame_LDADD = common/libcommon.la
TESTS += tests/test-frame

check_PROGRAMS += tests/test-runs
tests_test_runs_SOURCES = tests/test-runs.c
tests_test_runs_LDADD = common/libcommon.la
TESTS += tests/test-runs
