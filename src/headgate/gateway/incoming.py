"""A request as far as it has arrived: what its head says, and the bytes of its body."""

from __future__ import annotations

from typing import Final

from headgate.requests.bodies.large import LARGE_BYTES
from headgate.requests.client import Header

MAX_BODY_PIECES: Final = 1024
"""Further pieces of a body are put together: a body in tiny chunks would take many times its size."""
MAX_PIECES_BYTES: Final = 512 * 1024
"""Past this, pieces are put together as they come: to join many at the end leaves gaps in the heap."""

MAX_FRAMING_BYTES: Final = 16 * 1024
"""Of chunk sizes and extensions in one body."""
FRAMING_FACTOR: Final = 16
"""So many more for each byte of the body: chunks of one byte are legal, and need five bytes or a few more."""


class IncomingHead:
    """The head of one request, and what follows from it."""

    __slots__ = ("answer_lines", "headers", "host", "target", "version")

    def __init__(self) -> None:
        self.target = b""
        """As far as it came; without the host, once the head is complete."""
        self.headers: list[Header] = []
        """In order, with names in lower case."""
        self.version = ""
        self.host = b""
        self.answer_lines = b""
        """Header lines that the response to it needs."""

    def clear(self) -> None:
        """Another request begins."""
        self.target = self.answer_lines = b""
        self.headers = []

    @property
    def size(self) -> int:
        """Bytes of the target and the headers."""
        return len(self.target) + sum(len(name) + len(value) for name, value in self.headers)


class IncomingBody:
    """The body of one request. Its bytes are counted as held by whoever reads it."""

    __slots__ = ("_framed_bytes", "_pieces", "is_chunked", "length", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes | bytearray] = []
        self.size = 0
        """Bytes that came."""
        self.length = 0
        """As the head says; 0 where it says nothing."""
        self.is_chunked = False
        self._framed_bytes = 0
        """Bytes of a chunked body that came, with its framing."""

    def begin(self, length: int, *, is_chunked: bool) -> None:
        """The head is complete."""
        self.length = length
        self.is_chunked = is_chunked
        self._framed_bytes = 0

    @property
    def left(self) -> int:
        """Bytes to come; 0 where nobody knows."""
        return 0 if self.is_chunked else self.length - self.size

    def add(self, data: bytes) -> None:
        """Keep bytes of it."""
        pieces = self._pieces
        if pieces and isinstance(joined := pieces[0], bytearray):
            joined += data
        elif len(pieces) < MAX_BODY_PIECES and self.size < MAX_PIECES_BYTES:
            pieces.append(data)
        else:
            pieces[:] = [bytearray().join((*pieces, data))]
        self.size += len(data)

    def framed(self, size: int) -> None:
        """So many bytes of a chunked body came, with framing."""
        self._framed_bytes += size

    @property
    def has_too_much_framing(self) -> bool:
        return self._framed_bytes - self.size > MAX_FRAMING_BYTES + FRAMING_FACTOR * self.size

    def whole(self) -> bytes | bytearray:
        """All of it. A large one is not copied once more."""
        pieces = self._pieces
        if len(pieces) != 1:
            return b"".join(pieces)
        return pieces[0] if self.size > LARGE_BYTES else bytes(pieces[0])

    def drop(self) -> None:
        """Keep nothing of it."""
        self._pieces = []
        self.size = 0
