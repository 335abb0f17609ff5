"""Takes a response apart as the gateway writes it: its head as a header block, and its content."""

from __future__ import annotations

from typing import Final, NamedTuple

from headgate.dataplane.rewriting.chunks import Chunks, payload_at
from headgate.http2 import hpack

_OF_CONNECTION: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)
_WITHOUT_CONTENT: Final = (b"204", b"304")
_UNTIL_CLOSE: Final = -1
_CHUNKED: Final = -2
MAX_KNOWN: Final = 512
"""Header lines whose blocks are remembered."""
MAX_KNOWN_BYTES: Final = 128
_known: dict[bytes, bytes] = {}
"""Blocks of header lines, which repeat from response to response."""


class Part(NamedTuple):
    """What was written, as HTTP/2."""

    block: bytes
    """A header block; empty if the head was sent before."""
    is_interim: bool
    """Whether it is the head of an interim response, such as 100."""
    content: bytes
    is_complete: bool
    """Whether the response ends with this."""


class ResponseForm:
    """One response after its request."""

    __slots__ = (
        "_chunks",
        "_has_no_content",
        "_head",
        "_left",
        "_tail",
        "has_head",
        "is_complete",
        "is_last",
    )

    def __init__(self, has_no_content: bool) -> None:
        """`has_no_content`: it is the response to a HEAD request."""
        self._has_no_content = has_no_content
        self._head = b""
        """The beginning of a head."""
        self._left = _UNTIL_CLOSE
        """Bytes of content that are left, if they are counted."""
        self._chunks: Chunks | None = None
        self._tail = b""
        """What follows the last chunk, as far as it was written."""
        self.has_head = False
        """Whether the final head was read."""
        self.is_complete = False
        self.is_last = False
        """Whether the connection ends with it."""

    def feed(self, data: bytes) -> Part:
        """Read what was written next."""
        if self.has_head:
            content = self._content(data)
            return Part(b"", False, content, self.is_complete)
        head = self._head + data if self._head else data
        end = head.find(b"\r\n\r\n")
        if end < 0:
            self._head = head
            return Part(b"", False, b"", False)
        block, is_interim = self._read_head(head[:end])
        rest = head[end + 4 :]
        if is_interim:
            self._head = rest
            return Part(block, True, b"", False)
        self._head = b""
        self.has_head = True
        content = self._content(rest)
        return Part(block, False, content, self.is_complete)

    def take_rest(self) -> bytes:
        """What follows the head of an interim response."""
        rest, self._head = self._head, b""
        return rest

    @property
    def ends_with_connection(self) -> bool:
        """Whether it is complete once the connection is closed."""
        return self.has_head and self._left == _UNTIL_CLOSE and not self.is_complete

    def _read_head(self, head: bytes) -> tuple[bytes, bool]:
        first, *lines = head.split(b"\r\n")
        status = first[9:12]
        is_interim = status.startswith(b"1")
        blocks = [hpack.encode(((b":status", status),))]
        length = _UNTIL_CLOSE
        for line in lines:
            block = _known.get(line)
            if block is not None:
                blocks.append(block)
                continue
            name, _, value = line.partition(b":")
            name, value = name.lower(), value.strip()
            if name in _OF_CONNECTION:
                if name == b"transfer-encoding":
                    length = _CHUNKED
                elif name == b"connection" and value.lower() == b"close":
                    self.is_last = True
                continue
            block = hpack.encode(((name, value),))
            if name == b"content-length":
                length = int(value)
            elif len(line) <= MAX_KNOWN_BYTES and name != b"x-request-id" and len(_known) < MAX_KNOWN:
                _known[line] = block
            blocks.append(block)
        if not is_interim:
            if self._has_no_content or status in _WITHOUT_CONTENT:
                length = 0
            self._left = length
            self._chunks = Chunks() if length == _CHUNKED else None
            self.is_complete = length == 0
        return b"".join(blocks), is_interim

    def _content(self, data: bytes) -> bytes:
        chunks = self._chunks
        if chunks is None:
            if self._left >= 0:
                data = data[: self._left]
                self._left -= len(data)
                self.is_complete = not self._left
            return data
        if self.is_complete or not data:
            return b""
        if chunks.is_between and (at := payload_at(data)):
            return data[at:-2]
        content, tail = chunks.feed(data)
        if chunks.is_ended:
            self._tail += tail
            self.is_complete = self._tail == b"\r\n" or self._tail.endswith(b"\r\n\r\n")
        return content
