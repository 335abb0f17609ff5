"""What a peer may use: the limits of HTTP/2, and of messages."""

from __future__ import annotations

from headgate import http2


class Limits(http2.Limits, frozen=True, kw_only=True):
    """Limits of the connections of one server or client. Sizes are bytes, times seconds."""

    max_message_bytes: int = 4 << 20
    """Of one received message. The call ends with RESOURCE_EXHAUSTED."""
