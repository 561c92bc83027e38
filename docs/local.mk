# docs: the manual pages and the record of decisions.
EXTRA_DIST += docs/decisions.md
