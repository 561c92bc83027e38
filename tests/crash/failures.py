# SPDX-License-Identifier: BSD-3-Clause
"""Points that only failures reach, and the failures."""
import scenario

# nbdcopy dies while the receiver has it wait: the session is given up.
GIVE_UP = ('spool', 'receive-record:1@nbdcopy')
# delta-recv dies in its commit.
COMMIT = ('spool', 'commit-renamed:1@nbdkit-receive')
# A bitmap of the new one's name is there: the transaction is refused.
REFUSED = ('spool', 'spool-reserved:2@clash')
# The spool is slow: its jobs still run.
SLOW = ('slow', 'qmp=transaction:1@slow')
# The source agent does not end.
FROZEN = ('spool', 'sync-end:1@freeze-source')

# Point -> kind of sync, and what happens before it is reached.
ONLY_FAILURES = {
    'process-stop=nbdcopy': GIVE_UP,
    'process-stop=nbdsync': FROZEN,
    'process-stopped=nbdcopy': GIVE_UP,
    'process-stopped=nbdsync': (
        FROZEN[0], FROZEN[1] + '+process-stop=nbdsync:1@thaw-source'),
    'qmp=job-cancel': (SLOW[0], SLOW[1] + '+spool-started:1@sync'),
    'qmp-done=job-cancel': (SLOW[0], SLOW[1] + '+spool-started:1@sync'),
    'receive-close': GIVE_UP,
    'replica-discard': GIVE_UP,
    'replica-images-gone': GIVE_UP,
    'replica-session-gone': GIVE_UP,
    'replica-settle': COMMIT,
    'source-abort': GIVE_UP,
    'spool-undo': REFUSED,
    'spool-undo-files': REFUSED,
    'sync-closed': GIVE_UP,
    'sync-give-up': GIVE_UP,
}

# What is not reached here, and why not.
NEVER = {
    'process-stop=qemu-img': 'only when qemu-img hangs for a minute',
    'process-stopped=qemu-img': 'only when qemu-img hangs for a minute',
    'qmp=stop': 'only in a QEMU whose human monitor has no qemu-io',
    'qmp=cont': 'only in a QEMU whose human monitor has no qemu-io',
    'qmp-done=stop': 'only in a QEMU whose human monitor has no qemu-io',
    'qmp-done=cont': 'only in a QEMU whose human monitor has no qemu-io',
}


def scenarios(seed, wanted, deaths, every):
    """Each of these points once, or by every death."""
    n = len(deaths)
    for i, point in enumerate(sorted(ONLY_FAILURES)):
        if point not in wanted:
            continue
        kind, before = ONLY_FAILURES[point]
        for k in range(n) if every else [(i + seed) % n]:
            order = deaths[k] if every else '|'.join(deaths[k:] + deaths[:k])
            qemu = scenario.QEMUS[(i + k + seed) % len(scenario.QEMUS)]
            yield (f'{kind}/{qemu}/{seed * 1000 + 500 + i * n + k}/'
                   f'{before}+{point}:1@{order}')
