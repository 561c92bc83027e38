#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""qmp.py SOCKET COMMAND [ARGUMENTS-JSON]: one QMP command, for tests.

Prints the "return" member as JSON.  Exit 1 with QEMU's words if it refuses.
"""
import json
import socket
import sys


def main():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(30)
    s.connect(sys.argv[1])
    f = s.makefile('rw')
    json.loads(f.readline())

    def execute(command, arguments):
        f.write(json.dumps({'execute': command, 'arguments': arguments}))
        f.flush()
        while True:
            reply = json.loads(f.readline())
            if 'event' not in reply:
                return reply

    execute('qmp_capabilities', {})
    reply = execute(sys.argv[2],
                    json.loads(sys.argv[3]) if len(sys.argv) > 3 else {})
    if 'error' in reply:
        sys.exit(f"{sys.argv[2]}: {reply['error']['desc']}")
    print(json.dumps(reply['return']))


main()
