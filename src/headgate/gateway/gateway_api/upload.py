"""The body of a request on its way to a backend, as it arrives from the client."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headgate.dataplane.rewriting.chunks import LAST_CHUNK, chunk

if TYPE_CHECKING:
    from headgate.dataplane.bodies import BodyMemory
    from headgate.gateway.gateway_api.connection import EntryConnection

REPLAYED_BYTES: Final = 64 * 1024
"""So much of a body is kept until the backend responds, for another attempt; and so much arrives before there
is a connection."""


class WholeBody:
    """A body that is collected first, for an endpoint that speaks HTTP/2: it gets a request in one piece. Its
    bytes count as held memory."""

    can_replay = True

    def __init__(self, memory: BodyMemory) -> None:
        self._memory = memory
        self._pieces: list[bytes] = []
        self.size = 0

    def add(self, payload: bytes) -> bool:
        """Part of the body arrived. Returns whether there is memory for it."""
        self._pieces.append(payload)
        self.size += len(payload)
        self._memory.held += len(payload)
        return not self._memory.is_exceeded_by(self.size)

    def whole(self) -> bytes:
        return b"".join(self._pieces)

    def drop(self) -> None:
        """Free the body."""
        self._memory.held -= self.size
        self.size, self._pieces = 0, []


class StreamedBody:
    """Owned by one request. Until `send_to`, and again for another attempt, its bytes are kept."""

    def __init__(self, client: EntryConnection, *, is_chunked: bool) -> None:
        self._client = client
        self._is_chunked = is_chunked
        self._write: Callable[[bytes], None] | None = None
        """Writes to the backend's connection; None while there is none."""
        self._kept: list[bytes] = []
        """The body so far, framed for the backend, as long as another attempt may need it."""
        self._kept_bytes = 0
        self._is_complete = False
        self.can_replay = True
        """Whether all of the body that arrived is still there."""

    def add(self, payload: bytes) -> None:
        """Part of the body arrived."""
        self._pass(chunk(payload) if self._is_chunked else payload)
        if self._write is None and self._kept_bytes > REPLAYED_BYTES:
            self._client.pause_body()

    def end(self) -> None:
        """The body is complete."""
        self._is_complete = True
        if self._is_chunked:
            self._pass(LAST_CHUNK)

    def _pass(self, data: bytes) -> None:
        if self._write is not None:
            self._write(data)
            if self.can_replay and self._kept_bytes + len(data) > REPLAYED_BYTES:
                self.forget()
        if self._write is None or self.can_replay:
            self._kept.append(data)
            self._kept_bytes += len(data)

    def send_to(self, write: Callable[[bytes], None]) -> None:
        """Send what is there, and what will come, by this function."""
        self._write = write
        for data in self._kept:
            write(data)
        if self._kept_bytes > REPLAYED_BYTES:
            self.forget()
        self._client.resume_body()

    def forget(self) -> None:
        """No other attempt follows once this one fails."""
        if self._write is not None:
            self.can_replay = False
            self._kept, self._kept_bytes = [], 0

    # -- for the backend's connection

    @property
    def is_done(self) -> bool:
        return self._is_complete

    def pause(self) -> None:
        self._client.pause_body()

    def resume(self) -> None:
        self._client.resume_body()

    def drop(self) -> None:
        self._write = None
