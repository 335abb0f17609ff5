"""A large message as a list of buffers, so that it can be changed without a copy."""

from __future__ import annotations

from collections.abc import Iterable

Buffer = bytes | bytearray | memoryview


class Pieces:
    """Immutable. Keeps its buffers alive."""

    __slots__ = ("_size", "buffers")

    def __init__(self, buffers: Iterable[Buffer]) -> None:
        self.buffers = tuple(buffer for buffer in buffers if buffer)
        self._size = sum(map(len, self.buffers))

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self.buffers)
