#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""test-qmp-writer.py SOCKET EXPORT all|writes: write at random until killed.

Raw NBD, so that nothing is ever flushed: 512 bytes to 256 KiB; of "all" an
eighth is discards, an eighth write-zeroes.  Touches SOCKET.wrote now and
then.
"""
import os
import random
import socket
import struct
import sys

WRITE, TRIM, WRITE_ZEROES, NO_HOLE = 1, 4, 6, 2


def main():
    path, name, what = sys.argv[1:]
    kinds = [WRITE] * 6 + ([TRIM, WRITE_ZEROES] if what == 'all' else [])
    rng = random.Random()
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    f = s.makefile('rb')
    f.read(18)
    s.sendall(struct.pack('>I8sII', 3, b'IHAVEOPT', 1, len(name)) +
              name.encode())
    size = struct.unpack('>QH', f.read(10))[0]
    n = 0
    while True:
        length = min(512 << rng.randrange(10), size)
        offset = rng.randrange((size - length) // 512 + 1) * 512
        kind = rng.choice(kinds)
        flags = rng.choice([0, NO_HOLE]) if kind == WRITE_ZEROES else 0
        n += 1
        data = struct.pack('<Q', n) * (length // 8) if kind == WRITE else b''
        s.sendall(struct.pack('>IHHQQI', 0x25609513, flags, kind, n, offset,
                              length) + data)
        if f.read(16)[4:8] != bytes(4):
            sys.exit('a request failed')
        if n % 10 == 0:
            with open(path + '.wrote', 'a'):
                os.utime(path + '.wrote')


main()
