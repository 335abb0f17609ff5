"""One HTTP/2 stream: its windows, its unsent data, and its user."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from headgate.http2.hpack import Headers


class User(Protocol):
    """What a stream is used for. After `lose`, or after it ended the stream itself, it hears nothing more."""

    def receive(self, data: bytes, begin: int, end: int) -> None:
        """Content arrived: these bytes of `data`, at least one."""

    def receive_headers(self, headers: Headers) -> None:
        """Headers arrived that neither began nor ended the stream."""

    def receive_end(self, headers: Headers) -> None:
        """The peer sends no more. The headers are empty if the stream ended with content."""

    def expire(self) -> None:
        """What it waits for (`Http2.await_rest`) has not come in time; it has to end the stream."""

    def lose(self, code: int, reason: str, is_unprocessed: bool) -> None:
        """The stream has ended early: by the peer, with the connection, or by a limit."""

    def tell_writable(self) -> None:
        """The stream was not writable, and is again."""


class Stream:
    """The state of one stream, changed by the connection alone. Sizes are bytes."""

    __slots__ = (
        "ends",
        "id",
        "incomplete_since_s",
        "is_full",
        "is_paused",
        "is_received",
        "is_sent",
        "queue",
        "queued_bytes",
        "receive_window",
        "send_window",
        "stalled_since_s",
        "user",
        "was_answered",
    )

    def __init__(self, stream_id: int, send_window: int, receive_window: int) -> None:
        self.id = stream_id
        self.user: User | None = None
        """None before it is known, and after it has ended."""
        self.send_window = send_window
        self.receive_window = receive_window
        self.queue: deque[memoryview] | None = None
        """What the peer's windows or the socket do not take yet. None if all is sent."""
        self.queued_bytes = 0
        self.ends: bytes | None = None
        """The frames that end this side of the stream, to be sent behind the queue."""
        self.is_sent = False
        """Whether this side has ended."""
        self.is_received = False
        """Whether the peer's side has ended."""
        self.is_paused = False
        """Whether the peer gets no more window."""
        self.is_full = False
        """Whether its user should wait before it sends more: it hears when it need not any more."""
        self.was_answered = False
        """Whether anything was sent on it."""
        self.stalled_since_s: float | None = None
        """When the sweep of the connection first saw that nothing of the queue was sent."""
        self.incomplete_since_s: float | None = None
        """When the sweep of the connection first saw that its user waits for the rest of something."""
