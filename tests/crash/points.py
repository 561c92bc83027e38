#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The fault points, listed from the source: run it to see them.

FAULT_POINT ("NAME") is one point.  FAULT_POINT_OF ("NAME", x) is one for
each kind of x: for QMP, every command in the source that changes
something; for processes, every program that is started.  A point that is
reached but is not in this list fails the tests, so nothing is forgotten.
"""
import glob
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
COMPONENTS = ['common', 'qmp-client', 'nbdkit-filter', 'receiver', 'nbdsync']

# QMP commands that change nothing.
READS = ('qmp_capabilities', 'qom-get', 'x-debug-query-block-graph')


def sources():
    for component in COMPONENTS:
        for path in sorted(glob.glob(os.path.join(TOP, component, '*.c'))):
            with open(path, encoding='utf-8') as f:
                yield os.path.relpath(path, TOP), f.read()


def commands(text):
    """QMP commands that a source file executes."""
    for m in re.finditer(r'\b(?:qmp_execute|qmp_try|execute) \(\s*[^",]+,\s*'
                         r'"([^"]+)"', text):
        if not m.group(1).startswith('query-') and m.group(1) not in READS:
            yield m.group(1)


def programs(text):
    """Programs that a source file starts: argv[0] of an initialised array,
    the first word of a built command line, or ourselves.
    """
    for m in re.finditer(r'argv\[\] = \{\s*"([a-z][a-z-]*)"', text):
        yield m.group(1)
    for m in re.finditer(r'word \(argv, "(nbdkit)"\)', text):
        yield m.group(1)
    if '/proc/self/exe' in text:
        yield 'nbdsync'


def points():
    """Name of each point -> where it is."""
    found, kinds = {}, {'qmp': set(), 'process': set()}
    of = []
    for path, text in sources():
        if path == 'common/fault.c':
            continue
        kinds['qmp'].update(commands(text))
        kinds['process'].update(programs(text))
        for m in re.finditer(r'FAULT_POINT \("([^"]+)"\)', text):
            if m.group(1) in found:
                sys.exit(f'{path}: fault point {m.group(1)} is also in '
                         f'{found[m.group(1)]}')
            found[m.group(1)] = path
        for m in re.finditer(r'FAULT_POINT_OF \("([^"]+)"', text):
            of.append((m.group(1), path))
    for name, path in of:
        for kind in sorted(kinds[name.split('-')[0]]):
            found[f'{name}={kind}'] = path
    return found


if __name__ == '__main__':
    for name, path in sorted(points().items()):
        print(name, path)
