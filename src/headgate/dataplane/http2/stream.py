"""The stream of the request in progress on a connection."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from headgate.dataplane.http2 import heads

_NOTHING = memoryview(b"")


class Stream:
    """A request whose body is sent as far as flow control allows, and the form of its response."""

    __slots__ = ("_later", "id", "is_chunked", "to_come", "unsent")

    def __init__(self) -> None:
        self.id = 0
        """0 if there is no request in progress."""
        self.is_chunked = False
        """Whether the response has no content-length, and so is forwarded in chunks."""
        self.unsent = _NOTHING
        """The part of the request's body to send next."""
        self._later: deque[memoryview] = deque()
        """The parts to send after that."""
        self.to_come = 0
        """Bytes of the request's body that its user has still to write."""

    # -- the request

    def set_body(self, parts: Iterable[Any], length: int) -> None:
        """Set the body to send, of which more may follow up to this length; a part is any buffer."""
        self._later = deque(memoryview(each) for each in parts if each)
        self.unsent = self._next()
        self.to_come = max(length - self.unsent_bytes(), 0)

    def add(self, part: bytes) -> None:
        """The next part of the body."""
        self.to_come -= len(part)
        self._later.append(memoryview(part))
        if not self.unsent:
            self.unsent = self._next()

    @property
    def is_sent(self) -> bool:
        """Whether the whole body was taken."""
        return not self.unsent and not self.to_come

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
