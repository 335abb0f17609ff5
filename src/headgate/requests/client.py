"""The part of a client's request that decisions read, from HTTP, Envoy, or a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headgate.auth.tenant import Grant

Header = tuple[bytes, bytes]
"""Lower-case name and value."""


class ClientRequest(Protocol):
    """One request with its whole body. Its head is immutable."""

    body: bytes | bytearray
    """Empty once another body is sent instead, or no further attempt can follow."""

    held_bytes: int
    """Bytes counted for it in the memory of bodies; 0 once released."""

    @property
    def method(self) -> bytes:
        """Of HTTP, such as POST."""
        ...

    @property
    def path(self) -> str:
        """Without the query."""
        ...

    @property
    def headers(self) -> list[Header]:
        """In their order, with lower-case names."""
        ...

    @property
    def arrived_at(self) -> float:
        """In monotonic seconds."""
        ...

    @property
    def content_coding(self) -> bytes:
        """The content-encoding that the client declares; empty if none."""
        ...

    @property
    def is_from_trusted(self) -> bool:
        """Whether the connection's peer may speak for other clients."""
        ...

    @property
    def tenant(self) -> Grant | None:
        """What its client may do; None if clients need no credentials."""
        ...

    def header(self, name: bytes) -> str:
        """The first value of a header by its lower-case name; "" if it is missing."""
        ...
