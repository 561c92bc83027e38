# tests: what all tests share; each component lists its own tests.
EXTRA_DIST += tests/functions.sh
EXTRA_DIST += tests/qmp.py
