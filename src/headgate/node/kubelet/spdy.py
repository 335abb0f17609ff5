"""SPDY/3.1 as Kubernetes uses it: several streams of bytes in one upgraded HTTP connection.

Bytes in, frames out, and the other way round; no I/O. API servers open streams to a node by this protocol for
`kubectl exec` and `port-forward`, whatever protocol kubectl speaks. They use no flow control of its own, no
priorities and no pushed streams, so such frames are ignored. Source: draft-mbelshe-httpbis-spdy-00.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

MAX_CONTROL_BYTES = 16 << 10
"""Of a control frame."""
MAX_HEADER_BYTES = 32 << 10
"""Of the headers of a stream, uncompressed."""
MAX_HEADERS = 64

_NAMES = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges "
    "age allow authorization cache-control connection content-base content-encoding content-language "
    "content-length content-location content-md5 content-range content-type date etag expect expires from "
    "host if-match if-modified-since if-none-match if-range if-unmodified-since last-modified location "
    "max-forwards pragma proxy-authenticate proxy-authorization range referer retry-after server te trailer "
    "transfer-encoding upgrade user-agent vary via warning www-authenticate method get status|200 OK|version "
    "HTTP/1.1 url public set-cookie keep-alive origin"
)
_TEXT = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _dictionary() -> bytes:
    words = [word for part in _NAMES.split("|") for word in ([part] if part == "200 OK" else part.split())]
    return b"".join(struct.pack(">I", len(word)) + word.encode() for word in words) + _TEXT.encode()


DICTIONARY = _dictionary()
"""With which headers are compressed (2.6.10.1)."""

_VERSION = 3
_CONTROL = 0x8000
_FIN = 0x01
_HEAD_BYTES = 8
_ID = 0x7FFF_FFFF
CANCEL = 5
REFUSED = 3
"""Statuses of a reset (2.6.3)."""

Headers = Mapping[str, str]


class _Kind(IntEnum):
    """Of control frames. Others have no meaning here: settings, and updates of windows."""

    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    PING = 6
    GOAWAY = 7
    HEADERS = 8


class ProtocolError(Exception):
    """The peer does not speak SPDY/3.1, or exceeds a limit: the connection cannot go on."""


@dataclass(frozen=True)
class Opened:
    """The peer opened a stream; `is_last`: it will send no data."""

    stream: int
    headers: Headers
    is_last: bool = False


@dataclass(frozen=True)
class Data:
    """A part of a stream's data; a frame of it may arrive in several parts."""

    stream: int
    data: bytes
    is_last: bool = False


@dataclass(frozen=True)
class Reset:
    """The peer abandoned a stream."""

    stream: int
    status: int


@dataclass(frozen=True)
class Ping:
    """Must be sent back, unless it is ours."""

    number: int


@dataclass(frozen=True)
class GoAway:
    """The peer will open no further streams."""


Frame = Opened | Data | Reset | Ping | GoAway


class Decoder:
    """Frames of a peer, from bytes however they were split. Holds no more than one control frame."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._data_left = 0
        """Bytes to come of a data frame of which a part was returned."""
        self._data_stream = 0
        self._data_is_last = False

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that these bytes complete. Raises ProtocolError."""
        self._buffer += data
        while True:
            if self._data_left:
                if not self._buffer:
                    return
                yield self._part()
                continue
            if len(self._buffer) < _HEAD_BYTES:
                return
            first, second, length = struct.unpack_from(">HHI", self._buffer)
            flags, length = length >> 24, length & 0xFF_FFFF
            if not first & _CONTROL:
                del self._buffer[:_HEAD_BYTES]
                self._data_stream, self._data_left = (first << 16 | second) & _ID, length
                self._data_is_last = bool(flags & _FIN)
                if not length:
                    yield Data(self._data_stream, b"", self._data_is_last)
                continue
            if first & ~_CONTROL != _VERSION:
                raise ProtocolError(f"the frame is of SPDY version {first & ~_CONTROL} instead of {_VERSION}")
            if length > MAX_CONTROL_BYTES:
                raise ProtocolError(f"a control frame has {length} bytes; the limit is {MAX_CONTROL_BYTES}")
            if len(self._buffer) < _HEAD_BYTES + length:
                return
            content = bytes(self._buffer[_HEAD_BYTES : _HEAD_BYTES + length])
            del self._buffer[: _HEAD_BYTES + length]
            frame = self._control(second, flags, content)
            if frame is not None:
                yield frame

    def _part(self) -> Data:
        part = bytes(self._buffer[: self._data_left])
        del self._buffer[: len(part)]
        self._data_left -= len(part)
        return Data(self._data_stream, part, self._data_is_last and not self._data_left)

    def _control(self, kind: int, flags: int, content: bytes) -> Frame | None:
        try:
            match kind:
                case _Kind.SYN_STREAM:
                    headers = self._headers(content[10:])
                    return Opened(_number(content) & _ID, headers, bool(flags & _FIN))
                case _Kind.SYN_REPLY | _Kind.HEADERS:  # not needed, but all headers are compressed together
                    self._headers(content[4:])
                case _Kind.RST_STREAM:
                    return Reset(_number(content) & _ID, _number(content, 4))
                case _Kind.PING:
                    return Ping(_number(content))
                case _Kind.GOAWAY:
                    return GoAway()
        except struct.error as error:
            raise ProtocolError(f"a control frame of type {kind} is too short") from error
        return None

    def _headers(self, block: bytes) -> Headers:
        try:
            text = self._inflate.decompress(block, MAX_HEADER_BYTES)
        except zlib.error as error:
            raise ProtocolError(f"the headers of a stream cannot be uncompressed: {error}") from error
        if self._inflate.unconsumed_tail:
            raise ProtocolError(f"the headers of a stream have more than {MAX_HEADER_BYTES} bytes")
        count = _number(text)
        if count > MAX_HEADERS:
            raise ProtocolError(f"a stream has {count} headers; the limit is {MAX_HEADERS}")
        words, at = [], 4
        for _ in range(2 * count):
            length = _number(text, at)
            at += 4 + length
            if at > len(text):
                raise ProtocolError("a header of a stream is longer than all of them")
            words.append(text[at - length : at].decode("latin-1"))
        return {name.lower(): value for name, value in zip(words[::2], words[1::2], strict=True)}


class Encoder:
    """Frames for the peer, to be sent in the order in which they are made: all headers are compressed
    together."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def open(self, stream: int, headers: Headers, *, is_last: bool = False) -> bytes:
        """As a client does."""
        fields = struct.pack(">IIH", stream, 0, 0)
        return _control(_Kind.SYN_STREAM, fields + self._headers(headers), _FIN if is_last else 0)

    def reply(self, stream: int, headers: Headers | None = None) -> bytes:
        """Accept a stream, which its peer waits for."""
        return _control(_Kind.SYN_REPLY, struct.pack(">I", stream) + self._headers(headers or {}))

    def _headers(self, headers: Headers) -> bytes:
        words = [word.encode("latin-1") for pair in headers.items() for word in pair]
        text = struct.pack(">I", len(headers)) + b"".join(struct.pack(">I", len(w)) + w for w in words)
        return self._deflate.compress(text) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def data(stream: int, content: bytes, *, is_last: bool = False) -> bytes:
    """At most 16 MB of a stream."""
    return struct.pack(">II", stream, (_FIN if is_last else 0) << 24 | len(content)) + content


def reset(stream: int, status: int = CANCEL) -> bytes:
    return _control(_Kind.RST_STREAM, struct.pack(">II", stream, status))


def ping(number: int) -> bytes:
    """Even numbers are the server's, odd ones the client's."""
    return _control(_Kind.PING, struct.pack(">I", number))


def go_away(last_stream: int) -> bytes:
    return _control(_Kind.GOAWAY, struct.pack(">II", last_stream, 0))


def _control(kind: int, content: bytes, flags: int = 0) -> bytes:
    return struct.pack(">HHI", _CONTROL | _VERSION, kind, flags << 24 | len(content)) + content


def _number(content: bytes, at: int = 0) -> int:
    return int(struct.unpack_from(">I", content, at)[0])
