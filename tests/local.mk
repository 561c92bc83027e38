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
