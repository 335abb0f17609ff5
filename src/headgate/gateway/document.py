"""A JSON answer on its way to a client that knows the model by another name."""

from __future__ import annotations

from typing import Final

from headgate.gateway.chunks import LAST_CHUNK, Chunks, chunk
from headgate.gateway.names import NameSplice

HELD_BYTES: Final = 64 * 1024
"""So much is held until the name is found, and with it the length of the answer; engines begin with it."""


class Document:
    """One answer. Give it the body as it came, framing included; it gives out the body as it goes.

    With a `length`, the head must end without its length and empty line: those come with the first bytes
    given out. The length is told where it can be known soon enough, else the body goes in chunks. Without a
    length the framing stays: chunks if `is_chunked`, else the end of the connection.
    """

    __slots__ = ("_chunks", "_goes_in_chunks", "_held", "_length", "_remaining", "_splice", "taken_bytes")

    def __init__(self, name: bytes, *, length: int | None, is_chunked: bool) -> None:
        self._splice = NameSplice(name, nested=False)
        self._chunks = Chunks() if is_chunked else None
        self._goes_in_chunks = is_chunked
        self._length = length
        """What the endpoint said, until the client is told."""
        self._remaining = length or 0
        """Bytes of that which are still to come, until the client is told."""
        self._held = b""
        self.taken_bytes = 0
        """By how much the body became shorter."""

    @property
    def is_holding(self) -> bool:
        """Whether not even the head may go."""
        return self._length is not None

    @property
    def is_plain(self) -> bool:
        """Whether all further bytes pass as they come."""
        return self._splice.is_done and not self.is_holding and not self._goes_in_chunks

    def feed(self, data: bytes) -> bytes:
        """What is to be passed on now; nothing while the head must wait."""
        self.taken_bytes += len(data)
        head = b""
        if self._chunks is not None:
            passed = self._rechunked(self._chunks, data)
        elif self._length is not None:
            head, passed = self._held_until_known(data, self._length)
        else:
            passed = self._splice.feed(data)
            passed = chunk(passed) if self._goes_in_chunks else passed
        self.taken_bytes -= len(passed)
        return head + passed

    def flush(self) -> bytes:
        """What is left at the end of a complete answer."""
        if self._chunks is not None:
            return b""  # it went with the last chunk
        rest = self._splice.flush()
        if self._goes_in_chunks:
            rest = chunk(rest) + LAST_CHUNK
        self.taken_bytes -= len(rest)
        return rest

    def _rechunked(self, chunks: Chunks, data: bytes) -> bytes:
        payload, after = chunks.feed(data)
        passed = self._splice.feed(payload)
        if after:
            passed += self._splice.flush()
        return chunk(passed) + after

    def _held_until_known(self, data: bytes, length: int) -> tuple[bytes, bytes]:
        """The end of the head and the beginning of the body; nothing of both as long as neither may go."""
        self._remaining -= len(data)
        self._held += self._splice.feed(data)
        if self._remaining <= 0:
            self._held += self._splice.flush()
        elif not self._splice.is_done:
            if len(self._held) <= HELD_BYTES:
                return b"", b""
            self._goes_in_chunks = True
        self._length = None
        held, self._held = self._held, b""
        if self._goes_in_chunks:
            return b"transfer-encoding: chunked\r\n\r\n", chunk(held)
        return b"content-length: %d\r\n\r\n" % (length + self._splice.growth), held
