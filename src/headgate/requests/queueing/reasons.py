"""Errors for requests that were dropped: maps each reason to status, code and message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headgate.flow.queue import Dropped, Reason
from headgate.requests.refusal import START_FAILED, STARTING, Refusal, dropped_lines

if TYPE_CHECKING:
    from headgate.routing import Start

_TYPES = {429: "rate_limit_error", 503: "service_unavailable_error"}
NO_ENDPOINTS: Reason = "rejected-no-endpoints"
CANCELLED: Reason = "rejected-context-cancelled"
HELD = "held"
"""The outcome of a request that was accepted into the queue."""
DISPATCHED = "dispatched"
"""The outcome of a request that was dispatched from the queue."""
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
"""The error code of each reason, which is also the outcome in metrics and the access log."""


DELETED = Dropped(
    reason=NO_ENDPOINTS, message="was deleted while the request was on its way", retry_after_s=1
)
FAULTY = Dropped(reason=NO_ENDPOINTS, message="it cannot have endpoints", retry_after_s=1)


def refusal(dropped: Dropped, pool: str) -> Refusal:
    """The error for a request that was queued for a pool, or needed to be."""
    return _refusal(dropped, f"{pool}: {dropped.message}")


def without_endpoints(dropped: Dropped, none: Refusal, waited_s: float) -> Refusal:
    """The error if the pool has no endpoint; `none` is the one for requests that do not wait for an
    endpoint."""
    if waited_s < 1:
        return msgspec.structs.replace(none, lines=dropped_lines(dropped.reason))
    waited = f", and none became ready within {waited_s:.0f} s"
    logged = f"{none.logged}{waited}" if none.logged else ""
    return msgspec.structs.replace(_refusal(dropped, f"{none.message}{waited}"), logged=logged)


def not_started(dropped: Dropped, pool: str, start: Start) -> Refusal:
    """The error if the pool has no endpoint and is started by requests."""
    code = START_FAILED if start.failure else STARTING
    return _refusal(dropped, f"{pool}: {dropped.message}", code)


def _refusal(dropped: Dropped, message: str, code: str = "") -> Refusal:
    return Refusal(
        status=dropped.status,
        type=_TYPES[dropped.status],
        code=code or CODES[dropped.reason],
        message=f"{message}; try again in {dropped.retry_after_s} s",
        retry_after_s=dropped.retry_after_s,
        lines=dropped_lines(dropped.reason),
    )
