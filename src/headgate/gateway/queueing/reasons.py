"""What clients are told of requests that were not sent: one place maps why to status, code and words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.gateway.refusals import Refusal

if TYPE_CHECKING:
    from headgate.flow.queue import Dropped, Reason

_TYPES = {429: "rate_limit_error", 503: "service_unavailable_error"}
HEADERS = (b"x-headgate-dropped-reason", b"x-llm-d-request-dropped-reason")
NO_ENDPOINTS: Reason = "rejected-no-endpoints"
CANCELLED: Reason = "rejected-context-cancelled"
DISPATCHED = "dispatched"
"""The outcome of a wait that came to its end as it should."""
CODES: dict[Reason, str] = {
    "rejected-saturated": "queue_full",
    "rejected-no-endpoints": "no_ready_endpoint",
    "rejected-ttl-expired": "queue_timeout",
    "rejected-context-cancelled": "client_gone",
    "rejected-shutting-down": "shutting_down",
    "evicted": "evicted",
    "evicted-queue-pressure": "evicted_queue_pressure",
    "evicted-priority": "evicted_priority",
}
"""Of each reason: the code of the error, which is the outcome in metrics and the access log."""


def refusal(dropped: Dropped) -> Refusal:
    """The answer to a request that waited, or wanted to."""
    return Refusal(
        status=dropped.status,
        type=_TYPES[dropped.status],
        code=CODES[dropped.reason],
        message=f"{dropped.message}; try again in {dropped.retry_after_s} s",
        retry_after_s=dropped.retry_after_s,
        lines=lines(dropped.reason),
    )


def lines(reason: Reason) -> bytes:
    """The header lines that tell a reason."""
    return b"".join(b"%b: %b\r\n" % (name, reason.encode()) for name in HEADERS)
