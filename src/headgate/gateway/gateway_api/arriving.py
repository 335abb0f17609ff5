"""What has arrived at a connection to a Gateway, and is not passed on yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headgate.dataplane.bodies import BodyMemory
    from headgate.gateway.gateway_api.framing import Body

READ_AHEAD_BYTES: Final = 64 * 1024
"""Reading pauses once this much was sent ahead of the response to a request."""


class Incoming:
    """What has arrived of the request being read. Data that is kept counts as held memory."""

    __slots__ = ("_memory", "ahead", "begun_at", "body", "is_paused", "unread", "waits")

    def __init__(self, memory: BodyMemory, now: float) -> None:
        self._memory = memory
        self.ahead = b""
        """An incomplete head, or what was sent ahead of a response."""
        self.unread = b""
        """Data that waits for the connection's next turn."""
        self.waits = False
        """Whether it waits for its turn."""
        self.body: Body | None = None
        """The body being read; None between requests."""
        self.begun_at = now
        """When the request began to arrive, or when the connection became idle."""
        self.is_paused = False
        """Whether the socket is not read, for its request or for what was sent ahead."""

    def keep(self, data: bytes) -> bool:
        """Set `ahead`. Returns whether there is memory for it."""
        self._memory.held += len(data) - len(self.ahead)
        self.ahead = data
        return not (len(data) > READ_AHEAD_BYTES and self._memory.is_exceeded_by(len(data)))

    def leave(self, data: bytes) -> bool:
        """Set `unread`. Returns whether there is memory for it."""
        self._memory.held += len(data) - len(self.unread)
        self.unread = data
        return not (data and self._memory.is_exceeded_by(len(data)))

    def drop(self) -> None:
        """Free all data."""
        self.keep(b"")
        self.leave(b"")

    @property
    def counted_bytes(self) -> int:
        """Bytes that are left of a body of known length: they need no parsing."""
        return 0 if self.body is None else self.body.counted_bytes
