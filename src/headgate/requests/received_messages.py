"""The received part of a gRPC response: the counts are in its last message."""

from __future__ import annotations

from typing import Final

from headgate.engines import vllm_grpc
from headgate.requests.reported import Usage
from headgate.requests.usage import is_possible

LONGEST_BYTES: Final = 64 * 1024
"""Longer messages are not kept, and so not read."""
_BYTES_PER_TOKEN: Final = 4


class ReceivedMessages:
    """A `Received`. Follows the framing, and keeps the last message."""

    __slots__ = ("_head", "_last", "_left", "_part", "has_passed", "size", "taken_bytes")

    def __init__(self) -> None:
        self.has_passed = False
        self.size = 0
        self.taken_bytes = 0
        self._head = b""
        """The received part of a frame's head."""
        self._left = 0
        """Bytes of the message that have not arrived."""
        self._part: bytearray | None = None
        """The received part of the message, if it is kept."""
        self._last = b""

    @property
    def is_one_response(self) -> bool:
        return True

    @property
    def passed_bytes(self) -> int:
        return self.size

    def add(self, data: bytes) -> None:
        """The next bytes of the response."""
        self.size += len(data)
        at = 0
        while at < len(data):
            if self._left:
                piece = data[at : at + self._left]
                at += len(piece)
                self._left -= len(piece)
                if self._part is not None:
                    self._part += piece
                    if not self._left:
                        self._last = bytes(self._part)
                continue
            missing = vllm_grpc.FRAME_BYTES - len(self._head)
            self._head += data[at : at + missing]
            at += missing
            if len(self._head) == vllm_grpc.FRAME_BYTES:
                self._begin(self._head)
                self._head = b""

    def _begin(self, head: bytes) -> None:
        self._left = int.from_bytes(head[1:], "big")
        self._part = bytearray() if not head[0] and self._left <= LONGEST_BYTES else None

    def usage(self, request_bytes: int) -> Usage | None:
        """The counts reported by the endpoint, if they are plausible."""
        counts = vllm_grpc.read_counts(self._last)
        if counts is None:
            return None
        usage = Usage(counts.prompt, counts.completion, min(counts.cached, counts.prompt))
        return usage if is_possible(usage, request_bytes, self.size) else None

    def tokens(self, expected: int, counted: Usage | None, *, is_stream: bool) -> int:
        """Of a response that broke off, or has no counts."""
        return counted.completion if counted is not None else min(self.size // _BYTES_PER_TOKEN, expected)

    def is_hollow(self, path: str, counted: Usage | None, *, is_stream: bool) -> bool:
        """Whether it has no message."""
        return not self.size

    def forget(self, path: str) -> None:
        """The response was withdrawn."""
        self.size = self._left = 0
        self._head = self._last = b""
        self._part = None
