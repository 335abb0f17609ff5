"""Token counts of compressed responses: inflates a copy, while the client gets the original bytes.

The gateway asks engines not to compress; this is for those that do so anyway. The cost per response is
bounded. A response that is broken, too long, or in an unknown coding is forwarded like any other, and its
tokens are estimated.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakSet

import httptools

from headgate.dataplane.rewriting.chunks import Chunks
from headgate.requests.usage import ResponseTail, Tail

if TYPE_CHECKING:
    from headgate.requests.client import Header
    from headgate.requests.reported import Usage

MAX_AT_ONCE_BYTES = 1 << 20
"""Inflated from one piece: about two milliseconds of the event loop."""
MAX_BYTES = 64 << 20
"""Inflated from one response."""
LARGE_BYTES = 256 << 10
"""A br response that inflates to more than this uses up to 4 MB, while gzip and deflate never use more than
32 KB."""
MAX_LARGE = 64
"""Number of such br responses at a time, which use 256 MB."""
_STEP_BYTES = 64 << 10
"""For brotli, which returns up to one and a half times as much as requested."""
_GZIP, _ZLIB, _RAW = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS
_LOW_BITS = 0x0F
_ZLIB_METHOD = 8
"""In the low bits of the first byte (RFC 1950, 2.2). Deflate without zlib's header, which some servers send,
does not begin with it: that would be a stored block with nonzero padding."""
_LONG_WINDOWS = frozenset({0x0D, 0x0F})
"""In the low bits of the first byte of br (RFC 7932, 9.1): 8 and 16 MB. Servers use up to 4 MB."""


class UnreadableError(Exception):
    """A response is broken, or too long to inflate."""


class Inflating:
    """Makes tails for compressed responses, and bounds the memory of all of them."""

    def __init__(self) -> None:
        self._large: WeakSet[InflatedTail] = WeakSet()

    def tail(self, tail: ResponseTail, headers: list[Header], *, is_chunked: bool) -> ResponseTail:
        """A tail for a response with these headers, which keeps its inflated end in `tail`. It must get all
        bytes, including framing if `is_chunked`. Returns `tail` itself if the coding is unknown."""
        inflate = _inflater(_codings(headers))
        return tail if inflate is None else InflatedTail(tail, inflate, self, is_chunked=is_chunked)

    def keeps(self, tail: InflatedTail) -> bool:
        """Whether a br response may use several megabytes."""
        if tail not in self._large and len(self._large) >= MAX_LARGE:
            return False
        self._large.add(tail)
        return True

    def statistics(self) -> dict[str, int]:
        return {"large": len(self._large)}


class InflatedTail:
    """The end of a compressed response; empty once it cannot be inflated."""

    __slots__ = ("__weakref__", "_chunks", "_inflate", "_inflating", "_tail", "plain_bytes")

    def __init__(
        self, tail: ResponseTail, inflate: Inflater, inflating: Inflating, *, is_chunked: bool
    ) -> None:
        self._tail = tail
        self._inflate: Inflater | None = inflate
        self._inflating = inflating
        self._chunks = Chunks() if is_chunked else None
        self.plain_bytes = 0

    def add(self, data: bytes) -> None:
        inflate = self._inflate
        if inflate is None:
            return
        try:
            if self._chunks is not None:
                data, _ = self._chunks.feed(data)
            text = inflate(data) if data else b""
        except (UnreadableError, httptools.HttpParserError):
            self._give_up()
            return
        if not text:
            return
        self.plain_bytes += len(text)
        is_large = self.plain_bytes > LARGE_BYTES and isinstance(inflate, _Brotli)
        if self.plain_bytes > MAX_BYTES or (is_large and not self._inflating.keeps(self)):
            self._give_up()
        else:
            self._tail.add(text)

    def _give_up(self) -> None:
        self._inflate = self._chunks = None
        self._tail = Tail()
        self.plain_bytes = 0

    def text(self) -> bytes:
        return self._tail.text()

    def event_bytes(self) -> float:
        return self._tail.event_bytes()

    def usage(self) -> Usage | None:
        return self._tail.usage()


Inflater = Callable[[bytes], bytes]
"""Inflates the next bytes, which are not empty. Raises UnreadableError if they are broken, or inflate to more
than `MAX_AT_ONCE_BYTES`."""


class _Zlib:
    """gzip, with one member or several, and deflate, with zlib's header or without."""

    __slots__ = ("_is_gzip", "_stream")

    def __init__(self, *, is_gzip: bool) -> None:
        self._is_gzip = is_gzip
        self._stream = zlib.decompressobj(_GZIP) if is_gzip else None

    def __call__(self, data: bytes) -> bytes:
        texts: list[bytes] = []
        most = MAX_AT_ONCE_BYTES
        while data:
            stream = self._begun(data)
            try:
                text = stream.decompress(data, most + 1)
            except zlib.error as error:
                raise UnreadableError from error
            most -= len(text)
            if most < 0:
                raise UnreadableError
            texts.append(text)
            data = stream.unused_data
        return b"".join(texts)

    def _begun(self, data: bytes) -> zlib._Decompress:
        stream = self._stream
        if stream is None:
            has_header = data[0] & _LOW_BITS == _ZLIB_METHOD
            stream = self._stream = zlib.decompressobj(_ZLIB if has_header else _RAW)
        elif stream.eof:
            if not self._is_gzip:
                raise UnreadableError
            stream = self._stream = zlib.decompressobj(_GZIP)
        return stream


class _Brotli:
    """br. Raises ImportError or OSError if the library cannot be loaded."""

    __slots__ = ("_error", "_has_begun", "_process")

    def __init__(self) -> None:
        import brotli  # few engines ever need it

        self._process: Callable[..., bytes] = brotli.Decompressor().process
        self._error: type[Exception] = brotli.error
        self._has_begun = False

    def __call__(self, data: bytes) -> bytes:
        if not self._has_begun and data[0] & _LOW_BITS in _LONG_WINDOWS:
            raise UnreadableError
        self._has_begun = True
        texts: list[bytes] = []
        most = MAX_AT_ONCE_BYTES
        try:
            while text := self._process(data, output_buffer_limit=_STEP_BYTES):
                most -= len(text)
                if most < 0:
                    raise UnreadableError
                texts.append(text)
                data = b""
        except self._error as error:
            raise UnreadableError from error
        return b"".join(texts)


def _codings(headers: list[Header]) -> list[bytes]:
    """The applied codings, in order (RFC 9110, 8.4)."""
    named = b",".join(value for name, value in headers if name == b"content-encoding")
    codings = [coding.strip().lower() for coding in named.split(b",")]
    return [coding for coding in codings if coding not in (b"", b"identity")]


def _inflater(codings: list[bytes]) -> Inflater | None:
    """None for unknown or several codings."""
    if len(codings) != 1:
        return None
    coding = codings[0]
    if coding in (b"gzip", b"x-gzip", b"deflate"):
        return _Zlib(is_gzip=coding != b"deflate")
    try:
        return _Brotli() if coding == b"br" else None
    except (ImportError, OSError):
        return None
