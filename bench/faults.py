"""Endpoints that fail on purpose: responses in every framing, their faults, and a server for them.

A `Fault` is data: what is sent, when, how, and what happens to the connection then. `CATALOGUE` has the known
ones by name, each derived from the correct response. `FaultyEndpoint` asks which fault to use for each
request. Used by the table of faults in the tests, and by the soak.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

_RESET = struct.pack("ii", 1, 0)
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_OK = b"HTTP/1.1 200 OK\r\n"
_PUMP_BYTES = 256 * 1024


# -- correct responses


class Answer(NamedTuple):
    """`head` and `coded` are the bytes on the wire; `body` is what a client reads from them."""

    head: bytes
    coded: bytes
    body: bytes
    chunks: tuple[bytes, ...] = ()

    @property
    def wire(self) -> bytes:
        return self.head + self.coded


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def plain(body: bytes) -> Answer:
    """A response with a Content-Length."""
    return Answer(
        _OK + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body), body, body
    )


def chunked(pieces: Sequence[bytes], content_type: bytes = b"application/json") -> Answer:
    """A chunked response."""
    head = _OK + b"content-type: %b\r\ntransfer-encoding: chunked\r\n\r\n" % content_type
    chunks = tuple(chunk(piece) for piece in pieces)
    return Answer(head, b"".join(chunks) + b"0\r\n\r\n", b"".join(pieces), chunks)


def events(texts: Sequence[str]) -> Answer:
    """A stream of completion chunks, each its own event and chunk, with `[DONE]` at the end."""
    told = [
        f'data: {{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}\n\n'.encode() for text in texts
    ]
    return chunked([*told, b"data: [DONE]\n\n"], b"text/event-stream; charset=utf-8")


def unframed(body: bytes) -> Answer:
    """A response that ends with its connection."""
    return Answer(_OK + b"content-type: application/json\r\nconnection: close\r\n\r\n", body, body)


# -- faults

When = Literal["head", "request"]
Then = Literal["keep", "hang", "close", "reset"]


@dataclass(frozen=True)
class Fault:
    """What an endpoint does with a request; the default is a correct response.

    `when`: as soon as the request's head has arrived, or all of it. `pieces`: this many bytes at a time,
    `pause_s` apart; 0 sends everything at once. `endless` follows what is `sent`, until the peer disconnects.
    """

    sent: bytes
    when: When = "request"
    then: Then = "keep"
    pieces: int = 0
    pause_s: float = 0.0
    endless: bytes = b""


Make = Callable[[Answer], Fault]


def _cut(place: Callable[[Answer], int], then: Then) -> Make:
    return lambda answer: Fault(answer.wire[: place(answer)], then=then)


def _in_status_line(answer: Answer) -> int:
    return 7


def _in_headers(answer: Answer) -> int:
    return answer.head.index(b"content-type") + 5


def _at_end_of_head(answer: Answer) -> int:
    return len(answer.head) - 1


def _before_body(answer: Answer) -> int:
    return len(answer.head)


def _in_body(answer: Answer) -> int:
    """In the payload of the second chunk, if there are chunks."""
    first = len(answer.chunks[0]) if answer.chunks else 0
    return len(answer.head) + first + 10


def _in_chunk_size(answer: Answer) -> int:
    """After the first digit of the second chunk's size."""
    return len(answer.head) + len(answer.chunks[0]) + 1


def _between_chunks(answer: Answer) -> int:
    return len(answer.head) + len(answer.chunks[0])


def _before_end(answer: Answer) -> int:
    return len(answer.wire) - 1


def _in_character(answer: Answer) -> int:
    """After the first byte of a two-byte character."""
    return answer.wire.index("é".encode()) + 1


def _everything(answer: Answer) -> int:
    return len(answer.wire)


_PLACES: dict[str, Callable[[Answer], int]] = {
    "in the status line": _in_status_line,
    "in the headers": _in_headers,
    "at the end of the head": _at_end_of_head,
    "before the body": _before_body,
    "in the body": _in_body,
    "in a chunk size": _in_chunk_size,
    "between chunks": _between_chunks,
    "in a character": _in_character,
    "before the last byte": _before_end,
    "after the answer": _everything,
}
_WAYS: dict[str, Then] = {"resets": "reset", "closes": "close", "hangs": "hang"}


def _other_length(by: int) -> Make:
    def make(answer: Answer) -> Fault:
        length = len(answer.body)
        head = answer.head.replace(b"length: %d" % length, b"length: %d" % (length + by))
        return Fault(head + answer.coded, then="close")

    return make


def _bad_chunk_size(answer: Answer) -> Fault:
    at = _between_chunks(answer)
    return Fault(answer.wire[:at] + b"xyz\r\n" + answer.wire[at:], then="hang")


def _status(status: str) -> Make:
    body = b'{"error":{"message":"%b"}}' % status.encode()
    head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return lambda _: Fault(head % (status.encode(), len(body)) + body)


CATALOGUE: dict[str, Make] = {
    "answers": lambda answer: Fault(answer.wire),
    "takes the request and hangs": lambda _: Fault(b"", then="hang"),
    "closes amid the request": lambda _: Fault(b"", when="head", then="close"),
    "resets amid the request": lambda _: Fault(b"", when="head", then="reset"),
    "closes after the request": lambda _: Fault(b"", then="close"),
    "resets after the request": lambda _: Fault(b"", then="reset"),
    "answers before it reads the request": lambda answer: Fault(answer.wire, when="head"),
    "answers byte by byte": lambda answer: Fault(answer.wire, pieces=1),
    "speaks another protocol": lambda _: Fault(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", then="hang"),
    "sends a bad status line": lambda a: Fault(a.wire.replace(b"1.1 200", b"1.1 2x0", 1), then="hang"),
    "sends a bad header": lambda a: Fault(a.wire.replace(b"content-type:", b"content type", 1), then="hang"),
    "sends a long header": lambda _: Fault(_OK + b"x: ", endless=b"y" * _PUMP_BYTES),
    "sends headers without end": lambda _: Fault(_OK, endless=b"x-header: value\r\n" * 10_000),
    "sends 100 without end": lambda _: Fault(b"", endless=b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "announces too much": _other_length(+100),
    "announces too little": _other_length(-5),
    "sends a bad chunk size": _bad_chunk_size,
    "says 502": _status("502 Bad Gateway"),
    "says 503": _status("503 Service Unavailable"),
    "says 504": _status("504 Gateway Timeout"),
    "says 500": _status("500 Internal Server Error"),
    "says 429": _status("429 Too Many Requests"),
    **{
        f"{way} {place}": _cut(at, then)
        for way, then in _WAYS.items()
        for place, at in _PLACES.items()
    },
}  # fmt: skip


def every_cut(answer: Answer, then: Then) -> Iterator[tuple[int, Fault]]:
    """The response cut before each of its bytes, and after the last."""
    for place in range(len(answer.wire) + 1):
        yield place, Fault(answer.wire[:place], then=then)


# -- the server


@dataclass(frozen=True)
class Received:
    """A request; `body` is the part received so far."""

    target: str
    body: bytes


class FaultyEndpoint:
    """Listens on a loopback port; `choose` returns the fault for each request."""

    def __init__(self, choose: Callable[[Received], Fault]) -> None:
        self.choose = choose
        self.choose_at_accept: Callable[[], Fault | None] = lambda: None
        """Called for each connection, before its first request."""
        self.port = 0
        self.requests: list[Received] = []
        self.keeps_requests = True
        self.open: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str = "127.0.0.1") -> None:
        """Listen, on the same port as before if it listened before."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self), host, self.port, reuse_address=True, backlog=1024
        )
        self.port = self._server.sockets[0].getsockname()[1]

    def refuse(self) -> None:
        """Refuse connections from now on."""
        if self._server is not None:
            self._server.close()

    async def stop(self) -> None:
        """End everything immediately, like a killed process."""
        self.refuse()
        for connection in list(self.open):
            connection.reset()
        if self._server is not None:
            await self._server.wait_closed()
        for connection in list(self.open):
            await connection.lost


class _Connection(asyncio.Protocol):
    def __init__(self, endpoint: FaultyEndpoint) -> None:
        self._endpoint = endpoint
        self._data = b""
        self._unread = 0
        """Of a request that got its response before all of it arrived."""
        self._fault: Fault | None = None
        self._is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._endpoint.open.add(self)
        self.lost = asyncio.get_running_loop().create_future()
        fault = self._endpoint.choose_at_accept()
        if fault is not None:
            self._begin(fault)

    def connection_lost(self, error: Exception | None) -> None:
        self._endpoint.open.discard(self)
        self.lost.set_result(None)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._pump()

    def data_received(self, data: bytes) -> None:
        if self._fault is not None:
            return
        if self._unread:
            skipped = min(self._unread, len(data))
            self._unread -= skipped
            data = data[skipped:]
        self._data += data
        end = self._data.find(b"\r\n\r\n") + 4
        if end < 4:
            return
        found = _LENGTH.search(self._data, 0, end)
        length = int(found[1]) if found else 0
        received = Received(self._data.split(b" ", 2)[1].decode("latin-1"), self._data[end : end + length])
        fault = self._endpoint.choose(received)
        is_whole = len(received.body) == length
        if not is_whole and fault.when == "request":
            return
        if self._endpoint.keeps_requests:
            self._endpoint.requests.append(received)
        self._data = self._data[end + length :]
        self._unread = length - len(received.body)
        self._begin(fault)

    def _begin(self, fault: Fault) -> None:
        self._fault = fault
        if fault.pieces:
            self._write_piece(fault, 0)
        else:
            self._transport.write(fault.sent)
            self._end(fault)

    def _write_piece(self, fault: Fault, at: int) -> None:
        if self._transport.is_closing():
            return
        self._transport.write(fault.sent[at : at + fault.pieces])
        at += fault.pieces
        if at < len(fault.sent):
            asyncio.get_running_loop().call_later(fault.pause_s, self._write_piece, fault, at)
        else:
            self._end(fault)

    def _end(self, fault: Fault) -> None:
        if fault.endless:
            self._pump()
        elif fault.then == "close":
            self._transport.close()
        elif fault.then == "reset":
            self.reset()
        elif fault.then == "keep":
            self._fault = None

    def _pump(self) -> None:
        if self._fault is None or not self._fault.endless or self._is_full or self._transport.is_closing():
            return
        self._transport.write(self._fault.endless)
        asyncio.get_running_loop().call_soon(self._pump)

    def reset(self) -> None:
        """Reset the connection; data written before is still sent, if the peer reads it."""
        sock = self._transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()
