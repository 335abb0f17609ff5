"""A large message as the buffers that it consists of: changed without being copied."""

from __future__ import annotations

from collections.abc import Iterable

Buffer = bytes | bytearray | memoryview


class Pieces:
    """Never changed once it is made. As long as it is held, so are the buffers."""

    __slots__ = ("_size", "buffers")

    def __init__(self, buffers: Iterable[Buffer]) -> None:
        self.buffers = tuple(buffer for buffer in buffers if buffer)
        self._size = sum(map(len, self.buffers))

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self.buffers)
