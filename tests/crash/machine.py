# SPDX-License-Identifier: BSD-3-Clause
"""The source of a crash scenario: QEMU with two disks, and who writes to it.

A storage daemon, or qemu-system with a stopped CPU; either serves its disks
to the writer (tests/workload) by NBD.  It has two monitors: one is
nbdsync's, one is ours.
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import time

RATE = 40                       # operations a second, up to 1 MiB each


class Failure(Exception):
    """A scenario that did not end as it must."""


def wait_until(what, seconds, condition):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Failure(f'not within {seconds} s: {what}')
        time.sleep(0.01)


class Qmp:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        try:
            self.socket.connect(path)
        except OSError:
            self.socket.close()
            raise
        self.file = self.socket.makefile('rw')
        self.file.readline()
        self.execute('qmp_capabilities')

    def execute(self, command, **arguments):
        self.file.write(json.dumps({'execute': command,
                                    'arguments': arguments}))
        self.file.flush()
        while True:
            line = self.file.readline()
            if not line:
                raise Failure(f'{command}: QEMU closed the monitor')
            reply = json.loads(line)
            if 'return' in reply:
                return reply['return']
            if 'error' in reply:
                raise Failure(f'{command}: {reply["error"]["desc"]}')

    def close(self):
        self.file.close()
        self.socket.close()


def copy_disks(from_dir, to_dir):
    for name in ('a.qcow2', 'b.qcow2'):
        subprocess.run(['cp', '--reflink=auto', '--sparse=always',
                        f'{from_dir}/{name}', f'{to_dir}/{name}'], check=True)


class Segment:
    """The disks from a start of QEMU to its end: what they were, and the
    log of what was written then.
    """
    def __init__(self, base, log, first):
        self.base, self.log, self.first = base, log, first

    def last_operation(self):
        """Of the log; first - 1 if there is none."""
        try:
            with open(self.log, 'rb') as f:
                f.seek(0, os.SEEK_END)
                f.seek(max(0, f.tell() - 200))
                lines = f.read().split(b'\n')
        except FileNotFoundError:
            return self.first - 1
        return int(lines[-2].split()[0]) if len(lines) > 1 else \
            self.first - 1


class Machine:
    def __init__(self, directory, kind, workload, first, seed,
                 throttled=False):
        self.dir, self.kind, self.workload = directory, kind, workload
        self.throttled = throttled
        self.seed = seed
        self.qemu = self.writer = self.qmp = None
        self.segments = []
        self.next_operation = first

    def disk(self, name):
        return f'{self.dir}/{name}.qcow2'

    def command(self):
        monitors = []
        for m in ('qmp', 'ours'):
            monitors += ['--chardev' if self.kind == 'qsd' else '-chardev',
                         f'socket,id={m},path={self.dir}/{m},'
                         'server=on,wait=off']
            monitors += ['--monitor', f'chardev={m}'] \
                if self.kind == 'qsd' else \
                ['-mon', f'chardev={m},mode=control']
        nodes = []
        below = 'file.'
        if self.throttled:
            nodes += ['-object' if self.kind == 'system' else '--object',
                      'throttle-group,id=throttle']
            below = 'file.driver=throttle,file.throttle-group=throttle,' \
                'file.file.'
        for name in ('a', 'b'):
            nodes += ['-blockdev' if self.kind == 'system' else '--blockdev',
                      f'qcow2,node-name={name},discard=unmap,'
                      f'{below}driver=file,'
                      f'{below.split(",")[-1]}filename={self.disk(name)}']
        if self.kind == 'qsd':
            return ['qemu-storage-daemon', *monitors, *nodes]
        devices = []
        for name in ('a', 'b'):
            devices += ['-device', f'virtio-blk-pci,id={name},'
                        f'drive={name},share-rw=on']
        return ['qemu-system-x86_64', '-nodefaults', '-S', '-display', 'none',
                '-machine', 'q35,accel=tcg', '-m', '32', *monitors, *nodes,
                *devices]

    def monitor_is_up(self):
        if self.qemu.poll() is not None:
            raise Failure(f'QEMU did not start: see {self.dir}/qemu.log')
        try:
            self.qmp = Qmp(f'{self.dir}/ours')
        except OSError:
            return False
        return True

    def start(self):
        n = len(self.segments)
        base = f'{self.dir}/base{n}'
        os.mkdir(base)
        copy_disks(self.dir, base)
        with open(f'{self.dir}/qemu.log', 'ab') as log:
            self.qemu = subprocess.Popen(self.command(), stdout=log,
                                         stderr=log,
                                         stdin=subprocess.DEVNULL)
        wait_until('QEMU starts', 20, self.monitor_is_up)
        self.qmp.execute('nbd-server-start', addr={
            'type': 'unix', 'data': {'path': f'{self.dir}/nbd'}})
        for name in ('a', 'b'):
            self.qmp.execute('block-export-add', type='nbd', id=f'e{name}',
                             **{'node-name': name, 'name': name,
                                'writable': True})
        self.segments.append(Segment(base, f'{self.dir}/log{n}',
                                     self.next_operation))
        self.start_writer()

    def start_writer(self):
        s = self.segments[-1]
        with open(f'{self.dir}/writer.log', 'ab') as log:
            self.writer = subprocess.Popen(
                [self.workload, 'write', s.log,
                 f'nbd+unix:///a?socket={self.dir}/nbd',
                 f'nbd+unix:///b?socket={self.dir}/nbd', str(RATE),
                 str(self.seed + len(self.segments)), '4000000000',
                 str(s.first)], stdout=log, stderr=log)
        self.wait_for_writes(3)

    def wait_for_writes(self, n):
        s = self.segments[-1]
        goal = s.last_operation() + n
        wait_until('the guest writes on', 10,
                   lambda: s.last_operation() >= goal or self.check_writer())

    def check_writer(self):
        if self.writer.poll() is not None:
            raise Failure('the guest had an I/O error: see '
                          f'{self.dir}/writer.log')
        return False

    def alive(self):
        return self.qemu is not None and self.qemu.poll() is None

    def stop_writer(self):
        self.writer.terminate()
        try:
            status = self.writer.wait(10)
        except subprocess.TimeoutExpired:
            self.writer.kill()
            raise Failure('the guest\'s last write does not end')
        if status != 0:
            raise Failure(f'the guest had an I/O error: see '
                          f'{self.dir}/writer.log')

    def terminate(self, seconds):
        """SIGTERM; did it end?"""
        self.qemu.send_signal(signal.SIGTERM)
        try:
            self.qemu.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def ended(self):
        """QEMU is gone, however that came: the writer is as well."""
        try:
            self.qemu.wait(30)
        except subprocess.TimeoutExpired:
            raise Failure('QEMU does not end on SIGTERM')
        if self.qmp:
            self.qmp.close()
            self.qmp = None
        try:
            self.writer.wait(10)
        except subprocess.TimeoutExpired:
            self.writer.kill()
            raise Failure('the writer hangs without QEMU')
        self.next_operation = self.segments[-1].last_operation() + 1
        for name in ('qmp', 'ours', 'nbd'):
            if os.path.exists(f'{self.dir}/{name}'):
                os.unlink(f'{self.dir}/{name}')

    def slow_down(self, bytes_a_second):
        """All reads of images, the guest's too.  0: no more."""
        if self.throttled:
            self.qmp.execute('qom-set', path='/objects/throttle',
                             property='limits',
                             value={'bps-read': bytes_a_second})

    def state(self):
        """Nodes, jobs and exports, and the bitmaps of each disk."""
        nodes = self.qmp.execute('query-named-block-nodes', flat=True)
        names = sorted(n['node-name'] for n in nodes
                       if not n['node-name'].startswith('#block'))
        anonymous = sum(n['node-name'].startswith('#block') for n in nodes)
        jobs = sorted(j['id'] for j in self.qmp.execute('query-jobs'))
        exports = sorted(e['id'] for e in
                         self.qmp.execute('query-block-exports'))
        bitmaps = {n['node-name']: sorted(
            b['name'] for b in n.get('dirty-bitmaps', []) if b.get('name'))
            for n in nodes if n['node-name'] in ('a', 'b')}
        return {'nodes': names, 'anonymous nodes': anonymous, 'jobs': jobs,
                'exports': exports}, bitmaps

    def kill(self):
        """At the end of a scenario, whatever state it is in."""
        for p in (self.writer, self.qemu):
            if p and p.poll() is None:
                p.kill()
                p.wait()


def remove_tree(path):
    shutil.rmtree(path, ignore_errors=True)
