"""What a decision reads of a client's request, whoever brought it: HTTP, Envoy, or a trace."""

from __future__ import annotations

from typing import Protocol

Header = tuple[bytes, bytes]
"""Lower-case name and value."""


class ClientRequest(Protocol):
    """One request with its whole body. Its head never changes."""

    body: bytes | bytearray
    """Empty once another body is sent in its place, or nothing is sent again."""

    held_bytes: int
    """What it counts for in the memory of bodies; 0 once that is released."""

    @property
    def path(self) -> str:
        """Without the query."""
        ...

    @property
    def headers(self) -> list[Header]:
        """In their order, the names in lower case."""
        ...

    @property
    def arrived_at(self) -> float:
        """In monotonic seconds, as all times here."""
        ...

    @property
    def content_coding(self) -> bytes:
        """What the client says that its body is encoded as; empty if as nothing."""
        ...

    @property
    def is_from_trusted(self) -> bool:
        """Whether who is connected may speak for others."""
        ...

    def header(self, name: bytes) -> str:
        """The first value of a header by its lower-case name, "" if there is none."""
        ...
