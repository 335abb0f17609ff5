"""The account of one request: what happened when, and what it came to; read at its end."""

from __future__ import annotations

from typing import Final

from headgate.requests.reported import Usage

SERVED: Final = "served"
CLIENT: Final = frozenset({"client_gone", "client_stalled"})
"""Outcomes of requests whose client did not wait for the end of the answer."""
CLIENT_GONE: Final = 499
"""The status of a request whose client left before the end of the answer (nginx's number)."""


class Account:
    """Times are those of the shell's monotonic clock in seconds; 0 is not yet."""

    __slots__ = (
        "attempts",
        "bytes_in",
        "bytes_out",
        "error_message",
        "failed_attempts",
        "first_byte_at",
        "head_at",
        "heard_at",
        "outcome",
        "refusal_bytes",
        "sent_at",
        "status",
        "upstream_status",
        "usage",
    )

    def __init__(self, arrived_at: float, bytes_in: int) -> None:
        self.attempts = 0
        self.failed_attempts: list[tuple[str, str, int]] | None = None
        """Those before the last: the endpoint's name, what happened, milliseconds."""
        self.sent_at = 0.0
        """When it was sent for the last time,"""
        self.head_at = 0.0
        """when the head of the answer to that came,"""
        self.first_byte_at = 0.0
        """and when its first byte."""
        self.heard_at = arrived_at
        """When the endpoint was last heard of, for the idle timeout."""
        self.bytes_in = bytes_in
        self.bytes_out = 0
        """Of the answer's body, as they were passed on; known at the end."""
        self.status = 0
        """That the client gets."""
        self.upstream_status = 0
        """Of the answer that is passed on."""
        self.outcome = ""
        """`served`, or why not, in a word; empty until it is over."""
        self.error_message = ""
        self.refusal_bytes = 0
        """Of the body, if the request is answered with an error of our own."""
        self.usage: Usage | None = None
        """What the endpoint says that it counted; read at the end."""

    def note_failed(self, name: str, reason: str, took_s: float) -> None:
        """Keeps what became of an attempt."""
        if self.failed_attempts is None:
            self.failed_attempts = []
        self.failed_attempts.append((name, reason, int(took_s * 1e3 + 0.5)))
