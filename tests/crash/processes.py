# SPDX-License-Identifier: BSD-3-Clause
"""Processes, found by a word in their environment."""
import os


class Process:
    def __init__(self, pid):
        self.pid = pid
        with open(f'/proc/{pid}/stat', encoding='latin-1') as f:
            text = f.read()
        self.name = text[text.index('(') + 1:text.rindex(')')]
        rest = text[text.rindex(')') + 2:].split()
        self.state, self.parent = rest[0], int(rest[1])
        with open(f'/proc/{pid}/cmdline', encoding='latin-1') as f:
            self.words = f.read().split('\0')

    def __str__(self):
        return f'{self.pid} {" ".join(self.words)[:80]} ({self.state})'


def marked(mark):
    """Processes with this word in their environment, zombies left out."""
    found = []
    for d in os.listdir('/proc'):
        if not d.isdigit():
            continue
        try:
            with open(f'/proc/{d}/environ', 'rb') as f:
                if mark not in f.read().split(b'\0'):
                    continue
            p = Process(int(d))
            if p.state not in 'ZX':
                found.append(p)
        except (OSError, ValueError):
            pass
    return found


def signal_all(processes, sig):
    for p in processes:
        try:
            os.kill(p.pid, sig)
        except ProcessLookupError:
            pass
