"""A JSON response for a client that uses another name for the model."""

from __future__ import annotations

from typing import Final

from headgate.dataplane.rewriting.chunks import LAST_CHUNK, Chunks, chunk
from headgate.dataplane.rewriting.names import NameSplice

HELD_BYTES: Final = 64 * 1024
"""Held back until the model name is found and the new length is known; engines put the name near the
beginning."""


class Document:
    """One response. Takes the body as received, including framing, and returns it as sent.

    With a `length`, the head must lack its content-length and its final empty line: these come with the first
    bytes returned. The length is sent if it is known soon enough, else the body is chunked. Without a
    `length`, the framing stays the same: chunks if `is_chunked`, else the end of the connection.
    """

    __slots__ = ("_chunks", "_goes_in_chunks", "_held", "_length", "_remaining", "_splice", "taken_bytes")

    def __init__(self, name: bytes, *, length: int | None, is_chunked: bool) -> None:
        self._splice = NameSplice(name, nested=False)
        self._chunks = Chunks() if is_chunked else None
        self._goes_in_chunks = is_chunked
        self._length = length
        """The endpoint's content-length, until the head is complete."""
        self._remaining = length or 0
        """Bytes of it that have not arrived, until the head is complete."""
        self._held = b""
        self.taken_bytes = 0
        """Bytes removed from the body by the gateway."""

    @property
    def is_holding(self) -> bool:
        """Whether even the head must wait."""
        return self._length is not None

    @property
    def is_plain(self) -> bool:
        """Whether all further bytes are forwarded unchanged."""
        return self._splice.is_done and not self.is_holding and not self._goes_in_chunks

    def feed(self, data: bytes) -> bytes:
        """The bytes to forward now; empty while the head must wait."""
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
        """The rest at the end of a complete response."""
        if self._chunks is not None:
            return b""  # it was sent with the last chunk
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
        """The end of the head and the beginning of the body; both empty while the head must wait."""
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
