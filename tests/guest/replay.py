#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""replay.py A B [A B]...: qcow2 images of writer.s's two disks.

Is each pair one instant of the guest?  The newest counter k is read out of
A, the guest's writes are replayed up to k, and every byte is compared: A must
be the state after write k, B that after k or k - 1.  Of the newest write one
half may be missing: SeaBIOS splits a write of 128 sectors in two.  Pairs are
given in the order of their time: k never goes back.  Prints the counters;
exit 0 exact, 1 not, with the first bad sectors.  Sector 0 of A, the guest's
program, is not compared.
"""
import subprocess
import sys
import tempfile
from array import array

SPAN = 2048 + 0x40000 + 128
WORDS = 128                     # of 32 bits in a sector


def writes():
    x = 12345
    k = 0
    while True:
        k += 1
        x = (x * 1103515245 + 12345) & 0xffffffff
        at = 2048 + ((x >> 8) & 0x3ffff)
        yield k, at, {0: 1, 3: 128}.get((x >> 28) & 3, 8)


class Disk:
    """One of the two disks as it is after write k, in bytes."""

    def __init__(self, name):
        self.name = name
        self.k = 0
        self.bytes = bytearray(SPAN * 512)
        self.writes = writes()
        self.at = self.n = 0
        self.before = b''

    def go_to(self, k):
        while self.k < k:
            self.k, self.at, self.n = next(self.writes)
            span = slice(self.at * 512, (self.at + self.n) * 512)
            self.before = bytes(self.bytes[span])
            self.bytes[span] = array('I', [self.k]).tobytes() \
                * (WORDS * self.n)

    def wrong(self, got):
        """The first sectors where the image 'got' is not this state."""
        if got == self.bytes:
            return []
        off = [s for s in range(SPAN) if got[s * 512:s * 512 + 512]
               != self.bytes[s * 512:s * 512 + 512]]
        newest = range(self.at, self.at + self.n)
        if self.n == 128 and len(off) == 64 and all(
                s in newest and got[s * 512:s * 512 + 512] ==
                self.before[(s - self.at) * 512:(s - self.at + 1) * 512]
                for s in off):
            return []
        return off


def read(path, scratch, into):
    """An image's content, without the guest's program."""
    subprocess.run(['qemu-img', 'convert', '-f', 'qcow2', '-O', 'raw', path,
                    scratch], check=True)
    with open(scratch, 'rb', buffering=0) as f:
        at = memoryview(into)
        while at:
            n = f.readinto(at)
            if not n:
                sys.exit(f'{path}: it is too short')
            at = at[n:]
    into[0:512] = bytes(512)


def newest(got):
    return max(memoryview(got).cast('I')[::WORDS])


def check(paths, scratch):
    disks = Disk('A'), Disk('B')
    a, b = disks
    got = bytearray(SPAN * 512), bytearray(SPAN * 512)
    rc = 0
    for pair in zip(paths[0::2], paths[1::2]):
        for path, into in zip(pair, got):
            read(path, scratch, into)
        k, kb = newest(got[0]), newest(got[1])
        if k - kb not in (0, 1) or k < a.k or kb < b.k:
            print(f'{pair[0]}: A at write {k}, B at {kb}, before A at {a.k}'
                  f' and B at {b.k}')
            return 1
        for disk, at, image in zip(disks, (k, kb), got):
            disk.go_to(at)
            off = disk.wrong(image)
            if off:
                print(f'{disk.name}, write {at}: {len(off)} sectors wrong: '
                      f'{off[:5]}')
                rc = 1
        print(f'{pair[0]}: A at write {k}, B at {kb}:',
              'wrong' if rc else 'exact')
    return rc


if __name__ == '__main__':
    with tempfile.NamedTemporaryFile() as scratch_file:
        sys.exit(check(sys.argv[1:], scratch_file.name))
