"""Reasons why requests are not sent, and the messages for their clients."""

from __future__ import annotations

from typing import TypeAlias

from headgate.flow.queue.places import Full
from headgate.flow.queue.waiting import Reason, Waiting

Why: TypeAlias = tuple[Reason, str]

CLOSED: Why = ("rejected-shutting-down", "the gateway is shutting down")
NO_ENDPOINT: Why = ("rejected-no-endpoints", "the pool has no ready endpoint")
SHED: Why = ("rejected-saturated", "system saturated, sheddable request dropped")
EVICTED: Why = ("evicted", "request evicted by flow control: a more important one needs its place")


def full(bound: Full, *, has_endpoints: bool) -> Why:
    """The queue is full."""
    if not has_endpoints:
        return "rejected-no-endpoints", f"the pool has no ready endpoint, and {bound}"
    return "rejected-saturated", f"the pool is saturated, and {bound}"


def expired(waited_s: float, *, has_endpoints: bool) -> Why:
    """The request has expired."""
    if has_endpoints:
        message = f"the pool is saturated: the request was not sent within {waited_s:.1f} s"
        return "rejected-ttl-expired", message
    message = f"the pool had no ready endpoint, and the request has waited {waited_s:.1f} s"
    return "rejected-no-endpoints", message


def start_failed(failure: str) -> Why:
    """The pool has no endpoints because it could not be started."""
    return "rejected-no-endpoints", f"it could not be started: {failure}"


def starts_too_late(left_s: float, waits_s: float) -> Why:
    """The pool is not expected to be started while the request may wait."""
    told = f"it has no ready endpoint and is being started, which is expected to take {left_s:.0f} s"
    return "rejected-no-endpoints", f"{told}; the request may wait for {max(waits_s, 0.0):.0f} s"


def not_started(waited_s: float) -> Why:
    """The request has waited for a start for as long as it may."""
    return "rejected-no-endpoints", f"it is being started, and no endpoint was ready within {waited_s:.0f} s"


def pushed_out(waiting: Waiting) -> Why:
    """The request was dropped for another."""
    if waiting.priority < 0:
        return "evicted-queue-pressure", "the queue is full: a sheddable request made room for another"
    return "evicted-priority", "the queue is full: the request made room for one that goes before it"
