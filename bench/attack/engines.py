"""Engines for the attack benchmark: well-behaved ones, which respond immediately, and hostile ones.

    python bench/attack/engines.py good
    python bench/attack/engines.py hostile
    python bench/attack/engines.py sink CERT KEY

prints a port for each, and runs until its standard input ends. There are two hostile ones, which do what the
prompt names; the second speaks HTTP/2. A sink is a good engine and another one with TLS: attacks are sent
there to measure their own cost on this machine.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import ssl
import struct
import sys
from pathlib import Path
from typing import cast

import uvloop

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import own_processes

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
ANSWER = json.dumps(
    {
        "id": "a",
        "object": "chat.completion",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 2, "total_tokens": 102},
    }
).encode()
WELL = OK + b"content-length: %d\r\n\r\n" % len(ANSWER) + ANSWER
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_BOMB = gzip.compress(b"0" * 300_000_000, 9)
_PUMP = 64 * 1024
_FLOOD_SLICES_PER_S = 200

FAULTS: dict[str, tuple[bytes, bytes]] = {
    "head without end": (OK, b"x-more: 1234567890\r\n"),
    "1xx without end": (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
    "trailers without end": (OK + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", b"x-more: 1234\r\n"),
    "chunk extensions": (OK + b"transfer-encoding: chunked\r\n\r\n", b"1;" + b"e" * 8000 + b"\r\n \r\n"),
    "chunks of one byte": (OK + b"transfer-encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "events of one byte": (EVENTS + b"transfer-encoding: chunked\r\n\r\n", b"3\r\n:\n\n\r\n"),
    "gzip bomb": (OK + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(_BOMB) + _BOMB, b""),
}
"""The beginning of a response, and what follows endlessly."""


class Http1(asyncio.Protocol):
    """Counts the bytes of bodies, keeping only their beginning."""

    def __init__(self, is_hostile: bool = False) -> None:
        self._is_hostile = is_hostile
        self._head = b""
        self._left = -1
        self._flood: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._flood is not None:
            self._flood.cancel()

    def data_received(self, data: bytes) -> None:
        if self._left < 0:
            self._head += data
            end = self._head.find(b"\r\n\r\n") + 4
            if end < 4:
                return
            found = _LENGTH.search(self._head, 0, end)
            self._left = (int(found[1]) if found else 0) - (len(self._head) - end)
        else:
            self._left -= len(data)
        if self._left <= 0:
            request, self._head, self._left = self._head, b"", -1
            self.answer(request)

    def answer(self, request: bytes) -> None:
        """Respond to `request`, its head and the beginning of its body."""
        if self._is_hostile:
            for name, (sent, endless) in FAULTS.items():
                if b'"' + name.encode() + b'"' in request:
                    self._transport.write(sent)
                    if endless:
                        self._flood = asyncio.create_task(flood(self._transport, endless))
                    return
        # A good engine gets no pipelined requests; a sink may.
        self._transport.write(WELL * (request.count(b"\r\n\r\n") if request.startswith(b"GET ") else 1))


async def flood(transport: asyncio.Transport, piece: bytes) -> None:
    """Write as fast as the peer reads, at most 13 MB per second."""
    pieces = piece * max(1, _PUMP // len(piece))
    while not transport.is_closing():
        if transport.get_write_buffer_size() < 4 * _PUMP:
            transport.write(pieces)
        await asyncio.sleep(1 / _FLOOD_SLICES_PER_S)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


FLOODS: dict[bytes, bytes] = {
    b"PING flood": frame(6, 0, 0, b"12345678"),
    b"SETTINGS flood": frame(4, 0, 0, struct.pack(">HI", 3, 100)),
    b"WINDOW_UPDATE flood": frame(8, 0, 0, struct.pack(">I", 1)),
    b"empty DATA flood": frame(0, 0, 1),
}
_CONTINUATIONS = b"CONTINUATION flood"


class _Http2(asyncio.Protocol):
    """Sends its settings, and a flood when a request names one."""

    def __init__(self) -> None:
        self._seen = b""
        self._flood: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(frame(4, 0, 0))

    def connection_lost(self, error: Exception | None) -> None:
        if self._flood is not None:
            self._flood.cancel()

    def data_received(self, data: bytes) -> None:
        if self._flood is not None:
            return
        self._seen = (self._seen + data)[-4096:]
        for name, flooding in FLOODS.items():
            if name in self._seen:
                self._transport.write(frame(4, 1, 0) + frame(1, 4, 1, b"\x88"))
                self._flood = asyncio.create_task(flood(self._transport, flooding))
                return
        if _CONTINUATIONS in self._seen:
            self._transport.write(frame(4, 1, 0) + frame(1, 0, 1, b"\x88"))
            self._flood = asyncio.create_task(flood(self._transport, frame(9, 0, 1, b"\x40\x01x\x01y")))


async def main(kind: str, *pair: str) -> None:
    loop = asyncio.get_running_loop()
    tls = None
    if kind == "hostile":
        own_processes.yield_to_others()
        makes = [lambda: Http1(True), _Http2]
    elif kind == "good":
        makes = [lambda: Http1(False)]
    else:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*pair)
        makes = [lambda: Http1(False)] * 2
    servers = [
        await loop.create_server(make, "127.0.0.1", 0, backlog=1024, ssl=tls if number else None)
        for number, make in enumerate(makes)
    ]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for server in servers:
        server.close()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
