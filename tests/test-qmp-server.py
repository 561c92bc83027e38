#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""test-qmp-server.py SOCKET HOW: a monitor that behaves badly, for tests.

It serves one client.  Commands are answered with {"name": COMMAND}; HOW says
what is wrong with it, see the table at the end.
"""
import json
import os
import socket
import sys
import time

GREETING = {'QMP': {'version': {'qemu': {'major': 7, 'minor': 2, 'micro': 0},
                                'package': ''}, 'capabilities': []}}
EVENT = {'event': 'NOISE', 'data': {'text': '}{"\\'}, 'timestamp': {}}


def line(message, **kw):
    return json.dumps(message, **kw).encode() + b'\r\n'


def ok(request):
    return line({'return': {'name': request['execute']}, 'id': request['id']})


class Server:
    greeting = line(GREETING)
    in_pieces = False

    def reply(self, request):
        return ok(request)

    def answer(self, request):
        if request['execute'] == 'qmp_capabilities':
            return ok(request)
        return self.reply(request)

    def send(self, data):
        if data is None:
            raise EOFError
        if self.in_pieces:
            for i in range(len(data)):
                self.sock.sendall(data[i:i + 1])
                if i % 16 == 0:
                    time.sleep(0.001)
        else:
            self.sock.sendall(data)

    def serve(self, sock):
        self.sock = sock
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        self.send(self.greeting)
        for request in sock.makefile('rb'):
            self.send(self.answer(json.loads(request)))


class Bytewise(Server):
    in_pieces = True

    def reply(self, request):
        return line(EVENT) + ok(request) + line(EVENT)


class Burst(Server):
    def reply(self, request):
        return line(EVENT) * 3000 + ok(request) + line({'event': 'LAST'})


class Pretty(Server):
    greeting = line(GREETING, indent=4)

    def reply(self, request):
        return line(EVENT, indent=4) + line(json.loads(ok(request)), indent=4)


class Oversized(Server):
    def reply(self, request):
        return b'{"return": "' + b'x' * (17 << 20) + b'"}\r\n'


class Endless(Server):
    def reply(self, request):
        while True:
            self.sock.sendall(b'{"return": "' + b'x' * (1 << 20))


class Malformed(Server):
    def reply(self, request):
        return b'{"return": {}, "id": %d, nonsense}\r\n' % request['id']


class Duplicates(Server):
    def reply(self, request):
        return b'{"return": {}, "id": 1, "id": %d}\r\n' % request['id']


class NoResult(Server):
    def reply(self, request):
        return line({'id': request['id']})


class WrongId(Server):
    def reply(self, request):
        return line({'return': {}, 'id': request['id'] + 1})


class NoId(Server):
    def reply(self, request):
        return line({'return': {}})


class Refusal(Server):
    def reply(self, request):
        return line({'error': {'class': 'GenericError', 'desc': 'I will not'},
                     'id': request['id']})


class Eof(Server):
    def reply(self, request):
        return None


class HalfLine(Server):
    def reply(self, request):
        self.sock.sendall(b'{"return": ')
        return None


class Silent(Server):
    def reply(self, request):
        return b''


class EventsOnly(Server):
    def reply(self, request):
        while True:
            self.sock.sendall(line(EVENT))


class NoGreeting(Server):
    greeting = b''


class EarlyEof(Server):
    greeting = None


class Ssh(Server):
    greeting = b'SSH-2.0-OpenSSH_9.2\r\n'


class Nbd(Server):
    greeting = b'NBDMAGICIHAVEOPT\0\3'


class OtherJson(Server):
    greeting = line({'hello': 'world'})


def main():
    path, how = sys.argv[1:]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + '.tmp')
    listener.listen()
    os.rename(path + '.tmp', path)
    sock, _ = listener.accept()
    try:
        globals()[how]().serve(sock)
    except (BrokenPipeError, ConnectionResetError, EOFError):
        pass


main()
