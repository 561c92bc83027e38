# docs: the manual pages of the command; each component lists its own.
man_pods += docs/nbdsync.1.pod
EXTRA_DIST += docs/decisions.md
