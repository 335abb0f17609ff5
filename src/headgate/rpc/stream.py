"""One HTTP/2 stream: the windows, the unsent messages and the incomplete message of one call."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from headgate.rpc.errors import CallError
from headgate.rpc.hpack import Headers
from headgate.rpc.messages import MessageReader


class User(Protocol):
    """The call on a stream. After `reject` or `lose`, or after it ended the stream itself, it hears nothing
    more."""

    def receive(self, data: bytes) -> None:
        """A whole message arrived."""

    def receive_headers(self, headers: Headers) -> None:
        """Headers arrived that neither began nor ended the stream."""

    def receive_end(self, headers: Headers) -> None:
        """The peer sends no more. The headers are empty if the stream ended with a message."""

    def reject(self, fault: CallError) -> None:
        """What the peer sent cannot be passed on; the call has to end the stream."""

    def lose(self, code: int, reason: str, is_unprocessed: bool) -> None:
        """The stream has ended early: by the peer, with the connection, or by a limit."""

    def tell_writable(self) -> None:
        """The call was not writable, and is again."""


class Stream:
    """The state of one stream, changed by the connection alone. Sizes are bytes."""

    __slots__ = (
        "ends",
        "id",
        "is_full",
        "is_paused",
        "is_received",
        "is_sent",
        "queue",
        "queued_bytes",
        "reader",
        "receive_window",
        "send_window",
        "stalled_since_s",
        "user",
        "was_answered",
    )

    def __init__(self, stream_id: int, send_window: int, receive_window: int, reader: MessageReader) -> None:
        self.id = stream_id
        self.user: User | None = None
        """None before the call is known, and after the call has ended."""
        self.send_window = send_window
        self.receive_window = receive_window
        self.reader = reader
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
        """Whether the call should wait before it sends more: it hears when it need not any more."""
        self.was_answered = False
        """Whether anything was sent on it."""
        self.stalled_since_s: float | None = None
        """When the sweep of the connection first saw that nothing of the queue was sent."""
