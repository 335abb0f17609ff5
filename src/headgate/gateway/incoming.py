"""The head and body of a request that is still arriving."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from headgate.dataplane.bodies import BodyMemory
from headgate.gateway.request import ParsedHead
from headgate.requests.bodies.large import LARGE_BYTES
from headgate.requests.client import Header

if TYPE_CHECKING:
    from headgate.auth.outcome import Identity
    from headgate.dataplane.trust import Peer
    from headgate.requests.bodies.form_stream import FormStream

MAX_BODY_PIECES: Final = 1024
"""More pieces than this are joined, because a body in tiny chunks would take many times its size."""
MAX_PIECES_BYTES: Final = 512 * 1024
"""Beyond this size, pieces are joined on arrival: joining many at the end would fragment the heap."""

MAX_FRAMING_BYTES: Final = 16 * 1024
"""Limit for chunk sizes and extensions in one body."""
FRAMING_FACTOR: Final = 16
"""Added to the limit per byte of the body: a chunk of one byte is legal, and needs five bytes or more."""


class Upload(Protocol):
    """A request whose body is sent as it comes."""

    def receive(self, data: bytes) -> None:
        """The next bytes of the body."""
        ...


class IncomingHead:
    """The head of one request of a peer, and values derived from it."""

    __slots__ = ("headers", "host", "identity", "peer", "response_lines", "target", "version")

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.identity: Identity | None = None
        """The client, if it had to authenticate."""
        self.target = b""
        """As far as it has arrived; without the host once the head is complete."""
        self.headers: list[Header] = []
        """In order, with lower-case names."""
        self.version = ""
        self.host = b""
        self.response_lines = b""
        """Header lines required in the response."""

    def clear(self) -> None:
        """Reset for another request."""
        self.target = self.response_lines = b""
        self.headers = []
        self.identity = None

    def parsed(self, method: bytes) -> ParsedHead:
        """The complete head."""
        is_http_1_0 = self.version != "1.1"
        head = ParsedHead(
            method, self.target, self.headers, is_http_1_0, self.peer, self.host, self.response_lines
        )
        head.identity = self.identity
        return head

    @property
    def size(self) -> int:
        """Bytes of the target and the headers."""
        return len(self.target) + sum(len(name) + len(value) for name, value in self.headers)


class IncomingBody:
    """The body of one request. Its bytes count as held memory."""

    __slots__ = (
        "_framed_bytes",
        "_pieces",
        "form",
        "is_chunked",
        "is_streamed",
        "length",
        "memory",
        "size",
        "upload",
    )

    def __init__(self, memory: BodyMemory) -> None:
        self.memory = memory
        self._pieces: list[bytes | bytearray] = []
        self.size = 0
        """Bytes received."""
        self.length = 0
        """The `content-length`; 0 without one."""
        self.is_chunked = False
        self._framed_bytes = 0
        """Bytes received of a chunked body, including framing."""
        self.is_streamed = False
        """Whether further bytes are not kept."""
        self.form: FormStream | None = None
        """Reads a long form that may be sent as it comes."""
        self.upload: Upload | None = None
        """The request that is served while its body arrives."""

    def begin(self, length: int, *, is_chunked: bool) -> None:
        """Begin the body, after the head is complete."""
        self.length = length
        self.is_chunked = is_chunked
        self._framed_bytes = 0
        self.form = self.upload = None

    @property
    def left(self) -> int:
        """Bytes still to come; 0 if unknown."""
        return 0 if self.is_chunked else self.length - self.size

    def add(self, data: bytes) -> None:
        if self.is_streamed:
            self.size += len(data)
            return
        pieces = self._pieces
        if pieces and isinstance(joined := pieces[0], bytearray):
            joined += data
        elif len(pieces) < MAX_BODY_PIECES and self.size < MAX_PIECES_BYTES:
            pieces.append(data)
        else:
            pieces[:] = [bytearray().join((*pieces, data))]
        self.size += len(data)
        self.memory.held += len(data)

    def framed(self, size: int) -> None:
        """Count received bytes of a chunked body, including framing."""
        self._framed_bytes += size

    @property
    def has_too_much_framing(self) -> bool:
        return self._framed_bytes - self.size > MAX_FRAMING_BYTES + FRAMING_FACTOR * self.size

    def hand_over(self) -> bytes | bytearray:
        """The complete body; a large one is not copied again. Its bytes stay counted, now for its request."""
        pieces, size = self._pieces, self.size
        self._pieces = []
        self.size = 0
        if len(pieces) != 1:
            return b"".join(pieces)
        return pieces[0] if size > LARGE_BYTES else bytes(pieces[0])

    def stream(self) -> bytes:
        """What came of the body; further bytes are counted, and not kept. Its bytes stay counted as held, now
        for its request."""
        begun, self._pieces = b"".join(self._pieces), []
        self.is_streamed = True
        return begun

    def drop(self) -> None:
        """Free the body."""
        if not self.is_streamed:
            self.memory.held -= self.size
        self.is_streamed = False
        self.form = self.upload = None
        self._pieces = []
        self.size = 0
