# SPDX-License-Identifier: BSD-3-Clause
"""What the scenarios of a worker begin with."""
import glob
import json
import os
import subprocess

from machine import Failure, Machine

SIZE = '64M'
PREPARE_SECONDS = 90


class Tools:
    """Where the programs are, and what a worker has prepared."""
    def __init__(self, work):
        self.work = work
        self.workload = os.environ['builddir'] + '/tests/workload'
        self.template = None

    def run(self, *words):
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL,
                       timeout=PREPARE_SECONDS)


def prepare(tools):
    """Two disks with a replica of an earlier state, and the same without:
    a replica in DIR, bitmaps since then, and some more writes.
    """
    d = f'{tools.work}/template'
    os.makedirs(d)
    tools.run('qemu-img', 'create', '-q', '-f', 'qcow2', f'{d}/a.qcow2', SIZE)
    tools.run('qemu-img', 'create', '-q', '-f', 'qcow2', '-o',
              'cluster_size=4k', f'{d}/b.qcow2', SIZE)
    m = Machine(d, 'qsd', tools.workload, 1, 1)
    m.start()
    try:
        for n in range(2):
            m.wait_for_writes(30)
            tools.run('nbdsync', 'sync', f'qmp:{d}/qmp', f'{d}/replica')
        m.wait_for_writes(20)
        m.stop_writer()
        _, tools.bitmaps = m.state()
        if not m.terminate(20):
            raise Failure('the template\'s QEMU does not end')
        m.ended()
    finally:
        m.kill()
    tools.template, tools.first = d, m.next_operation


def remove_locks(replica):
    """Locks stay as long as their chain, which has ended here."""
    for path in glob.glob(f'{replica}/generations/*/manifest.json'):
        with open(path, encoding='utf-8') as f:
            for disk in json.load(f)['disks'].values():
                lock = f'/run/nbdsync/chain-{disk["chain"][:8]}.lock'
                if os.path.exists(lock):
                    os.unlink(lock)
