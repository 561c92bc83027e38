# SPDX-License-Identifier: BSD-3-Clause
"""One crash scenario: template, victims, deaths, the next sync, the judge.

Written as text, so that each can be run again:

  KIND/QEMU/SEED/POINT:N@DEATH[|DEATH...][+POINT:N@DEATH...][,...][!]

One or more victim syncs, separated by commas; each is stopped at a point
(the N-th time it is reached), dies there, goes on, and may be stopped
again.  "-" is a victim that is not stopped, "--" one after which nothing
more is done: just to see which points it reaches.  "!" at the end: the
next sync does not wait for what is left of the last victim.  Of several
deaths the first is died of which somebody is there.
"""
import glob
import json
import os
import random
import signal
import subprocess
import time
import traceback

from machine import (Failure, Machine, copy_disks, remove_tree, wait_until)
from processes import Process, marked, signal_all
from template import remove_locks

END_SECONDS = 30                # for what is left to end by itself
SYNC_SECONDS = 90
STOP_SECONDS = 60               # until a point is reached

# What the victim does.  None: there is no replica yet.
KINDS = {
    'spool': (True, []),
    'precopy': (True, ['--scratch-limit=0']),
    'full': (True, ['--full']),
    'full-precopy': (True, ['--full', '--scratch-limit=0']),
    'first': (False, []),
    'first-precopy': (False, ['--scratch-limit=0']),
    'stopped': (True, []),
    'first-stopped': (False, []),
    'slow': (True, []),         # its spool can be slowed
    'dropped': (True, []),      # synced with overlays that are gone again
}
QEMUS = ('qsd', 'system')

# What may die.  "all" is everything of ours and QEMU at once.
DEATHS = ('sync', 'qemu-kill', 'qemu-term', 'nbdkit-source',
          'nbdkit-receive', 'nbdcopy', 'storage', 'all', 'source', 'receive',
          'reader')


class Scenario:
    def __init__(self, text, tools):
        self.text, self.tools = text, tools
        kind, qemu, seed, victims = text.split('/', 3)
        self.kind, self.qemu, self.seed = kind, qemu, int(seed)
        self.has_replica, self.options = KINDS[kind]
        self.random = random.Random(text)
        self.impatient = victims.endswith('!')
        self.victims = [self.parse_victim(v)
                        for v in victims.rstrip('!').split(',')]
        self.dir = f'{tools.work}/{self.seed}'
        while os.path.exists(self.dir):
            self.dir += 'x'
        self.mark = f'NBDSYNC_CRASH={self.dir}'
        self.replica = f'{self.dir}/replica'
        self.notes = []         # for the log line
        self.reached = set()
        self.missed = False     # a point was not reached
        self.died = []
        self.counts = {}        # of the first victim
        self.owner = {}         # generation -> the segment it is of
        self.killed_9 = False

    @staticmethod
    def parse_victim(text):
        stops = []
        for stop in text.split('+'):
            if stop in ('-', '--'):
                continue
            point, _, death = stop.partition('@')
            name, _, nth = point.rpartition(':')
            stops.append((name, int(nth), death.split('|')))
        return stops

    # Processes.

    def processes(self):
        return marked(self.mark.encode())

    def find(self, death, sync):
        """Which of ours dies this death?  One of them, if there are more."""
        ours = self.processes()
        agents = {p.words[1]: p.pid for p in ours
                  if p.name == 'nbdsync' and len(p.words) > 1 and
                  p.words[1] in ('source', 'receive')}

        def children(parent, name):
            return [p for p in ours if p.name.startswith(name) and
                    parent is not None and p.parent == parent]

        receivers = children(agents.get('receive'), 'nbdkit')
        found = {
            'sync': [p for p in ours if p.pid == sync.pid],
            'source': [p for p in ours if p.pid == agents.get('source')],
            'receive': [p for p in ours if p.pid == agents.get('receive')],
            'nbdkit-source': children(agents.get('source'), 'nbdkit'),
            'reader': children(agents.get('source'), 'qemu-storage'),
            'nbdkit-receive': receivers,
            'storage': [q for p in receivers
                        for q in children(p.pid, 'qemu-storage')],
            'nbdcopy': [p for p in ours if p.name == 'nbdcopy'],
            'all': ours,
        }[death]
        return found if death == 'all' or len(found) < 2 else \
            [self.random.choice(found)]

    def die(self, death, sync):
        """Returns False if nothing there can die so."""
        m = self.machine
        if death.startswith('qemu') and not m.alive():
            return False
        self.qemu_dies |= death in ('qemu-kill', 'qemu-term', 'all')
        if death == 'qemu-kill':
            m.qemu.kill()
            m.qemu.wait()
        elif death == 'qemu-term':
            m.terminate(2)
        elif death == 'clash':
            self.add_clashing_bitmap()
        elif death == 'slow':
            m.slow_down(6000000)
        elif death.startswith('freeze-'):
            signal_all(self.find(death[7:], sync), signal.SIGSTOP)
        elif death.startswith('thaw-'):
            signal_all(self.find(death[5:], sync), signal.SIGCONT)
        else:
            victims = self.find(death, sync)
            if not victims:
                return False
            signal_all(victims, signal.SIGKILL)
            if death == 'all' and m.alive():
                m.qemu.kill()
                m.qemu.wait()
        # The private storage daemon of a stopped machine is a QEMU, too.
        self.killed_9 |= death in ('qemu-kill', 'all') or \
            (death == 'reader' and self.is_stopped())
        return True

    def add_clashing_bitmap(self):
        with open(f'{self.replica}/current/manifest.json',
                  encoding='utf-8') as f:
            chain = json.load(f)['disks']['b']['chain']
        self.machine.qmp.execute(
            'block-dirty-bitmap-add', node='b',
            name=f'nbdsync-{chain[:8]}-{self.generation() + 1}')

    # A victim.

    def start_sync(self, name, fault, options):
        source = f'qmp:{self.dir}/qmp'
        if self.is_stopped():
            source = f'image:{self.dir}/a.qcow2,{self.dir}/b.qcow2'
        mark, _, value = self.mark.partition('=')
        env = dict(os.environ, NBDSYNC_FAULT=fault,
                   NBDSYNC_FAULT_LOG=f'{self.dir}/{name}.fault',
                   XDG_RUNTIME_DIR=f'{self.dir}/run',
                   TMPDIR=f'{self.dir}/tmp', **{mark: value})
        with open(f'{self.dir}/{name}.json', 'wb') as out, \
                open(f'{self.dir}/{name}.err', 'wb') as err:
            return subprocess.Popen(
                ['nbdsync', 'sync', '--json', '-v', *options, source,
                 self.replica], stdin=subprocess.DEVNULL, stdout=out,
                stderr=err, env=env)

    def fault_lines(self, name):
        try:
            with open(f'{self.dir}/{name}.fault', encoding='ascii') as f:
                return [line.split() for line in f if line.endswith('\n')]
        except FileNotFoundError:
            return []

    def wait_for_stop(self, name, sync, point):
        """The pid of who stopped at the point; None if nobody did."""
        end = time.monotonic() + STOP_SECONDS
        while time.monotonic() < end:
            over = sync.poll() is not None and not self.processes()
            for words in self.fault_lines(name):
                if words[0] == 'stopped' and words[1] == point:
                    pid = int(words[2])
                    wait_until(f'{pid} is stopped', 5,
                               lambda: Process(pid).state == 'T')
                    return pid
            if over:
                return None
            time.sleep(0.005)
        raise Failure(f'{point} is not reached and the sync does not end')

    def wait_for_end(self, sync, what):
        begin = time.monotonic()
        end = begin + END_SECONDS
        while True:
            left = self.processes()
            if not left and sync.poll() is not None:
                break
            if time.monotonic() > end:
                self.backtrace(left)
                signal_all(left, signal.SIGKILL)
                signal_all(left, signal.SIGCONT)
                raise Failure(f'{what}: processes are left after '
                              f'{END_SECONDS} s: ' +
                              '; '.join(str(p) for p in left))
            time.sleep(0.01)
        seconds = time.monotonic() - begin
        if seconds > 3:
            self.notes.append(f'end={seconds:.1f}s')

    def backtrace(self, processes):
        """Where they hang, for whoever looks into the directory."""
        with open(f'{self.dir}/hang', 'a', encoding='utf-8') as f:
            for p in processes:
                f.write(f'{p}\n')
                try:
                    with open(f'/proc/{p.pid}/wchan', encoding='ascii') as w:
                        f.write(f'  wchan {w.read()}\n')
                except OSError:
                    pass

    def run_victim(self, n, stops):
        name = f'victim{n}'
        fault = ','.join(f'{point}:{nth}' for point, nth, _ in stops)
        segment = len(self.machine.segments) - 1
        sync = self.start_sync(name, fault or 'list', self.options)
        self.qemu_dies = False
        for point, _, deaths in stops:
            pid = self.wait_for_stop(name, sync, point)
            if pid is None:
                self.missed = True
                break
            # Whoever of ours stands still, the guest goes on.
            if self.machine.alive() and self.kind != 'slow':
                self.machine.wait_for_writes(2)
            died = next((d for d in deaths if self.die(d, sync)), None)
            self.notes.append(f'died={died}')
            self.died.append(died)
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
        signal_all(self.processes(), signal.SIGCONT) # those that were frozen
        try:
            if self.impatient and n == len(self.victims) - 1:
                sync.wait(END_SECONDS)
            else:
                self.wait_for_end(sync, 'victim')
        finally:
            if sync.poll() is None:
                sync.kill()
                sync.wait()
        self.reached.update(w[1] for w in self.fault_lines(name))
        self.after_victim(name, sync.returncode, segment)

    def after_victim(self, name, status, segment):
        now = self.generation()
        self.notes.append(f'exit={status}')
        self.note_generations(segment)
        self.last_segment = segment
        if status == 0:
            result = self.result(name)
            if result.get('generation') != now:
                raise Failure(f'the victim reports generation '
                              f'{result.get("generation")}, but current is '
                              f'{now}')
        m = self.machine
        if self.is_stopped():
            return
        if not m.alive() and not self.qemu_dies:
            raise Failure(f'QEMU ended by itself: {m.qemu.returncode}')
        if self.qemu_dies:
            m.ended()
            m.start()
        else:
            m.slow_down(0)
            m.wait_for_writes(2)

    # What there is.

    def is_stopped(self):
        return self.machine.qemu is None

    def generation(self):
        try:
            link = os.readlink(f'{self.replica}/current')
        except FileNotFoundError:
            return 0
        return int(os.path.basename(link))

    def result(self, name):
        try:
            with open(f'{self.dir}/{name}.json', encoding='utf-8') as f:
                return json.load(f)
        except ValueError:
            return {}

    def note_generations(self, segment):
        """Those that are new are of this segment, committed or not yet.  A
        machine that was not started yet (-1) has what it then starts with.
        """
        for path in glob.glob(f'{self.replica}/generations/*/manifest.json'):
            name = os.path.basename(os.path.dirname(path))
            if name.isdigit():
                self.owner.setdefault(int(name), max(segment, 0))

    # The next sync.

    def sync_well(self, name, options=()):
        before = self.generation()
        for attempt in range(2):
            sync = self.start_sync(name, 'list', options)
            try:
                sync.wait(SYNC_SECONDS)
            except subprocess.TimeoutExpired:
                self.backtrace(self.processes())
                signal_all(self.processes(), signal.SIGKILL)
                sync.wait()
                raise Failure(f'{name}: does not end')
            self.wait_for_end(sync, name)
            self.reached.update(w[1] for w in self.fault_lines(name))
            if sync.returncode != 75 or attempt:
                break
            self.notes.append(f'{name}-75')
        if sync.returncode != 0:
            raise Failure(f'{name}: exit {sync.returncode}: ' +
                          self.last_error(name))
        result = self.result(name)
        generation = self.generation()
        if result.get('generation') != generation:
            raise Failure(f'{name}: reports generation '
                          f'{result.get("generation")}, current is '
                          f'{generation}')
        # What an impatient one has waited for, or settled.
        for g in range(before + 1, generation):
            self.owner.setdefault(g, max(self.last_segment, 0))
        self.note_generations(len(self.machine.segments) - 1)
        return result

    def last_error(self, name):
        with open(f'{self.dir}/{name}.err', encoding='utf-8') as f:
            lines = f.read().splitlines()
        return lines[-1] if lines else 'without a word'

    def check_kinds(self, name, result, full_allowed):
        kinds = {d['name']: d['kind'] for d in result['disks']}
        self.notes.append(f'{name}=' + '+'.join(sorted(set(kinds.values()))))
        if set(kinds) != {'a', 'b'}:
            raise Failure(f'{name}: disks {sorted(kinds)}')
        for d in result['disks']:
            if d['kind'] == 'full' and not full_allowed:
                raise Failure(f'{name}: {d["name"]} is full without need: '
                              f'{d["reason"]}')

    # Leftovers.

    def check_leftovers(self):
        wrong = []
        state, bitmaps = self.machine.state()
        for key, value in state.items():
            if value != self.baseline[key]:
                wrong.append(f'{key}: {value}, not {self.baseline[key]}')
        generation = self.generation()
        manifest = f'{self.replica}/current/manifest.json'
        with open(manifest, encoding='utf-8') as f:
            disks = {name: d['chain'] for name, d in
                     json.load(f)['disks'].items()}
        for node in ('a', 'b'):
            want = sorted([f'nbdsync-{disks[node][:8]}-{generation}'] +
                          self.foreign[node])
            if bitmaps[node] != want:
                wrong.append(f'bitmaps of {node}: {bitmaps[node]}, not '
                             f'{want}')
        known = {'a.qcow2', 'b.qcow2', 'replica', 'run', 'tmp', 'qmp',
                 'ours', 'nbd', 'qemu.log', 'writer.log', 'hang'}
        for entry in os.listdir(self.dir):
            if entry not in known and not entry.startswith(
                    ('base', 'log', 'victim', 'next', 'quiet')):
                wrong.append(f'in the disks\' directory: {entry}')
        for d in ('run', 'tmp'):
            for entry in os.listdir(f'{self.dir}/{d}'):
                wrong.append(f'in {d}: {entry}')
        wrong += self.replica_leftovers()
        if wrong:
            raise Failure('left over: ' + '; '.join(wrong))

    def replica_leftovers(self):
        wrong = []
        for entry in os.listdir(self.replica):
            if entry not in ('current', 'generations', 'lock',
                             'checked.json', 'journal.jsonl'):
                wrong.append(f'in the replica: {entry}')
        for entry in os.listdir(f'{self.replica}/generations'):
            path = f'{self.replica}/generations/{entry}'
            if entry in ('last.json', 'replica.json'):
                continue
            if not entry.isdigit() or int(entry) > self.generation():
                wrong.append(f'in generations: {entry}')
            elif sorted(os.listdir(path)) != ['a.qcow2', 'b.qcow2',
                                              'manifest.json']:
                wrong.append(f'in generations/{entry}: '
                             f'{sorted(os.listdir(path))}')
        return wrong

    # The judge.

    def judge(self):
        for number, segment in enumerate(self.machine.segments):
            dirs = [f'{self.replica}/generations/{g:06d}'
                    for g in sorted(self.owner)
                    if g > self.given and self.owner[g] == number]
            paths = [f'{d}/{n}.qcow2' for d in dirs if os.path.isdir(d)
                     for n in ('a', 'b')]
            if not paths:
                continue
            r = subprocess.run(
                [self.tools.workload, 'check', '--from',
                 f'{segment.base}/a.qcow2', f'{segment.base}/b.qcow2',
                 segment.log, *paths], stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, check=False, timeout=SYNC_SECONDS)
            text = r.stdout.decode()
            with open(f'{self.dir}/log{number}.judge', 'w',
                      encoding='utf-8') as f:
                f.write(text)
            if r.returncode != 0:
                raise Failure('a generation is not one instant: ' +
                              text[-600:])

    def compare(self):
        for name in ('a', 'b'):
            r = subprocess.run(
                ['qemu-img', 'compare', '-q', f'{self.dir}/{name}.qcow2',
                 f'{self.replica}/current/{name}.qcow2'],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                check=False, timeout=SYNC_SECONDS)
            if r.returncode != 0:
                raise Failure(f'{name} differs from the source after a quiet '
                              f'sync: {r.stdout.decode()[-200:]}')

    # All of it.

    def set_up(self):
        t = self.tools
        for d in ('', '/run', '/tmp'):
            os.mkdir(self.dir + d)
        copy_disks(t.template, self.dir)
        if self.has_replica:
            subprocess.run(['cp', '-a', '--reflink=auto',
                            f'{t.template}/replica', self.replica],
                           check=True)
            self.settle_in()
        if self.kind == 'dropped':
            self.drop_overlays()
        self.machine = Machine(self.dir, self.qemu, t.workload, t.first,
                               self.seed, self.kind == 'slow')
        # To a first replica, the template's is another one.
        self.foreign = {'a': [], 'b': []} if self.has_replica else t.bitmaps

    def settle_in(self):
        """The replica and its source were always here."""
        path = f'{self.replica}/generations/replica.json'
        with open(path, encoding='utf-8') as f:
            identity = json.load(f)
        identity['witness'] = subprocess.run(
            ['stat', '-c', '%i-%.9W', f'{self.replica}/lock'], check=True,
            stdout=subprocess.PIPE).stdout.decode().strip()
        with open(path, 'w', encoding='utf-8') as f:
            json.dump(identity, f)
        for path in glob.glob(f'{self.replica}/generations/*/manifest.json'):
            with open(path, encoding='utf-8') as f:
                text = f.read()
            with open(path, 'w', encoding='utf-8') as f:
                f.write(text.replace(self.tools.template, self.dir))

    def drop_overlays(self):
        """The replica has what the disks, whose bitmaps are of an older
        generation then, never had.
        """
        overlays = [f'{self.dir}/base-{n}.qcow2' for n in ('a', 'b')]
        for overlay, n in zip(overlays, ('a', 'b')):
            self.tools.run('qemu-img', 'create', '-q', '-f', 'qcow2', '-F',
                           'qcow2', '-b', f'{self.dir}/{n}.qcow2', overlay)
            self.tools.run('qemu-io', '-f', 'qcow2', '-c',
                           'write -P 77 1M 2M', overlay)
        mark, _, value = self.mark.partition('=')
        subprocess.run(['nbdsync', 'sync', 'image:' + ','.join(overlays),
                        self.replica], check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, **{
                           mark: value, 'TMPDIR': f'{self.dir}/tmp',
                           'XDG_RUNTIME_DIR': f'{self.dir}/run'}))
        for overlay in overlays:
            os.unlink(overlay)

    def start_machine(self):
        self.machine.start()
        self.baseline, _ = self.machine.state()

    def run_all(self):
        m = self.machine
        self.given = self.generation()
        if 'stopped' not in self.kind:
            self.start_machine()
        for n, stops in enumerate(self.victims):
            self.run_victim(n, stops)
        if self.text.endswith('/--'):
            return
        # Of a machine that was not running: it is now, or still not.
        had_replica = self.generation() > 0
        if self.is_stopped():
            if self.seed % 2 or self.impatient:
                result = self.sync_well('next')
                self.check_kinds('next', result,
                                 self.killed_9 or not had_replica)
                self.killed_9 = False
                had_replica = True
            self.start_machine()
        result = self.sync_well('next2' if self.is_stopped() else 'next')
        self.check_kinds('next', result, self.killed_9 or not had_replica)
        m.wait_for_writes(2)
        m.stop_writer()
        result = self.sync_well('quiet')
        self.check_kinds('quiet', result, False)
        self.check_leftovers()
        if not m.terminate(20):
            raise Failure('QEMU does not end on SIGTERM')
        m.ended()
        self.judge()
        self.compare()

    def run(self):
        """Returns None, or why it failed.  Then its directory is kept."""
        why = None
        try:
            self.set_up()
            self.run_all()
        except Failure as e:
            why = str(e)
        except Exception as e:  # pylint: disable=broad-except
            why = f'{type(e).__name__}: {e}'
            with open(f'{self.dir}/traceback', 'w', encoding='utf-8') as f:
                traceback.print_exc(file=f)
        finally:
            if hasattr(self, 'machine'):
                self.machine.kill()
            left = self.processes()
            signal_all(left, signal.SIGKILL)
            if not self.has_replica:
                remove_locks(self.replica)
        self.counts = fault_counts(f'{self.dir}/victim0.fault')
        if why is None:
            remove_tree(self.dir)
        return why


def fault_counts(path):
    """How often each point was reached."""
    counts = {}
    if os.path.exists(path):
        with open(path, encoding='ascii') as f:
            for line in f:
                name = line.split()[1]
                counts[name] = counts.get(name, 0) + 1
    return counts
