#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""qmp-watch.py SOCKET [BITMAP]: what happens in a QEMU, until it ends.

A line "event NAME" for each event; with BITMAP also, some ten times a second,
for each node on which a bitmap of this name was seen
"bitmap NODE COUNT recording|not-recording busy|not-busy", or "gone NODE".
"""
import json
import socket
import sys


class Watch:
    def __init__(self, path, bitmap):
        self.bitmap = bitmap
        self.seen = set()
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.text = b''
        self.read()             # the greeting
        self.execute('qmp_capabilities')

    def read(self):
        while b'\n' not in self.text:
            more = self.socket.recv(65536)
            if not more:
                sys.exit(0)
            self.text += more
        line, self.text = self.text.split(b'\n', 1)
        message = json.loads(line)
        if 'event' in message:
            print('event', message['event'], flush=True)
        return message

    def execute(self, command, **arguments):
        self.socket.sendall(json.dumps({
            'execute': command, 'arguments': arguments}).encode())
        while True:
            message = self.read()
            if 'event' not in message:
                return message['return']

    def look(self):
        found = {n['node-name']: b
                 for n in self.execute('query-named-block-nodes', flat=True)
                 for b in n.get('dirty-bitmaps', [])
                 if b.get('name') == self.bitmap}
        for node in sorted(self.seen - set(found)):
            print('gone', node, flush=True)
        for node, b in sorted(found.items()):
            print('bitmap', node, b['count'],
                  'recording' if b['recording'] else 'not-recording',
                  'busy' if b['busy'] else 'not-busy', flush=True)
        self.seen |= set(found)

    def run(self):
        while True:
            if self.bitmap:
                self.look()
                self.socket.settimeout(0.1)
            try:
                self.read()
            except TimeoutError:
                pass
            self.socket.settimeout(None)


try:
    Watch(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None).run()
except ConnectionError:
    pass
