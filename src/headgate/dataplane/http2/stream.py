"""The stream of the request in progress on a connection."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from headgate.dataplane.http2 import heads

_NOTHING = memoryview(b"")


class Stream:
    """A request whose body is sent as far as flow control allows, and the form of its response."""

    __slots__ = ("_later", "id", "is_chunked", "unsent")

    def __init__(self) -> None:
        self.id = 0
        """0 if there is no request in progress."""
        self.is_chunked = False
        """Whether the response has no content-length, and so is forwarded in chunks."""
        self.unsent = _NOTHING
        """The part of the request's body to send next."""
        self._later: deque[memoryview] = deque()
        """The parts to send after that."""

    # -- the request

    def set_body(self, parts: Iterable[Any]) -> None:
        """Set the body to send; a part is any buffer."""
        self._later = deque(memoryview(each) for each in parts if each)
        self.unsent = self._next()

    def take(self, size: int) -> bytes:
        """Remove the next `size` bytes of the body, at most those of `unsent`. Nothing is unsent after the
        last ones."""
        sent, rest = self.unsent[:size], self.unsent[size:]
        self.unsent = rest or self._next()  # an empty part would keep the whole prompt alive
        return bytes(sent)

    def unsent_bytes(self) -> int:
        return len(self.unsent) + sum(map(len, self._later))

    def drop_body(self) -> None:
        """Release the rest of the body."""
        self.unsent = _NOTHING
        self._later.clear()

    def _next(self) -> memoryview:
        return self._later.popleft() if self._later else _NOTHING

    # -- the response, as HTTP/1.1

    def head(self, headers: Iterable[heads.Header]) -> bytes:
        """The head of the final response."""
        head, self.is_chunked = heads.response(headers)
        return head

    def framed(self, data: bytes) -> tuple[bytes, ...]:
        """A piece of the response's body."""
        return (b"%x\r\n" % len(data), data, b"\r\n") if self.is_chunked else (data,)

    def end(self) -> bytes:
        """Record that the response is complete. Returns what follows its body."""
        self.id = 0
        return b"0\r\n\r\n" if self.is_chunked else b""
