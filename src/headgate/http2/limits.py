"""What a peer may use: sizes, counts and times of one connection, and bytes of all of them."""

from __future__ import annotations

from typing import Final

import msgspec

MIN_WINDOW_BYTES: Final = 65_535
"""A peer may use this much before it has read any setting (RFC 9113, 6.9.2)."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the connections of one server or client. Sizes are bytes, times seconds."""

    max_header_bytes: int = 8192
    """Of the headers of one stream, as names, values and 32 bytes each (RFC 9113, 6.5.2)."""
    max_calls: int = 10_000
    """Streams in progress of one connection: for each response that a proxy streams, there is one. Further
    ones are refused (REFUSED_STREAM)."""
    max_all_calls: int = 50_000
    """The same for all connections together."""
    abandoned_burst: int = 10_000
    """Streams that a client may cancel before anything was sent for them, at once."""
    abandoned_per_s: int = 1000
    """The same per second."""
    call_window_bytes: int = 1 << 20
    """Flow control window of each stream: sent by the peer and not taken yet."""
    connection_window_bytes: int = 16 << 20
    """The same for all streams of one connection together."""
    high_water_bytes: int = 256 << 10
    """A stream with more unsent bytes is not writable; it is again with half of that."""
    max_held_bytes: int = 256 << 20
    """Unsent data of all connections together, and what their users hold of streams. The stream that would
    exceed it ends."""
    max_unread_bytes: int = 4 << 20
    """Written to the socket of one connection, but not read by the peer."""
    max_connections: int = 1000
    """Of one server. A further one is closed at once."""
    handshake_timeout_s: float = 10.0
    """From the connection to the peer's first frame."""
    stall_timeout_s: float = 60.0
    """A stream whose data the peer does not take for so long is cancelled; a connection whose peer does not
    read is closed."""
    keepalive_s: float = 60.0
    """After so long without any data, the peer is asked for a sign of life (PING)."""
    keepalive_timeout_s: float = 20.0
    """It must come within this time."""
    incomplete_timeout_s: float = 60.0
    """After its first byte, a frame must be complete within this time, and what the user of a stream waits
    for, unless the stream is paused."""

    def __post_init__(self) -> None:
        for name in ("call_window_bytes", "connection_window_bytes"):
            if not MIN_WINDOW_BYTES <= getattr(self, name) < 1 << 31:
                raise ValueError(
                    f"{name} is {getattr(self, name)}: set {MIN_WINDOW_BYTES} to 2147483647 bytes"
                )


class Holdings:
    """What is held for all connections together: streams, and bytes of their data."""

    __slots__ = ("calls", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.calls = 0

    def take(self, size: int) -> bool:
        """Account for `size` more bytes; False, and nothing is accounted for, if there are too many."""
        if self.used_bytes + size > self.limit_bytes:
            return False
        self.used_bytes += size
        return True

    def give(self, size: int) -> None:
        """These bytes are held no longer."""
        self.used_bytes -= size
