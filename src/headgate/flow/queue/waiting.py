"""A queued request, and the response if it is not sent."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import msgspec

Reason: TypeAlias = Literal[
    "rejected-saturated",
    "rejected-no-endpoints",
    "rejected-ttl-expired",
    "rejected-context-cancelled",
    "rejected-shutting-down",
    "evicted",
    "evicted-queue-pressure",
    "evicted-priority",
]
"""Why a request was not sent, as in `x-llm-d-request-dropped-reason`: `rejected` ones were not queued or
expired, `evicted` ones were dropped for others."""

TOO_MANY, UNAVAILABLE = 429, 503
STATUSES: dict[Reason, int] = {
    "rejected-saturated": TOO_MANY,
    "rejected-no-endpoints": UNAVAILABLE,
    "rejected-ttl-expired": TOO_MANY,
    "rejected-context-cancelled": UNAVAILABLE,
    "rejected-shutting-down": UNAVAILABLE,
    "evicted": TOO_MANY,
    "evicted-queue-pressure": TOO_MANY,
    "evicted-priority": TOO_MANY,
}


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request was not sent, for its client."""

    reason: Reason
    message: str
    retry_after_s: int
    """When to retry: whole seconds, at least 1."""

    @property
    def status(self) -> int:
        """Status of the HTTP response: 429 if other requests came first, 503 if no request is served."""
        return STATUSES[self.reason]


class Waiting:
    """One request that is queued, or about to be. Times are in monotonic seconds."""

    __slots__ = (
        "arrived",
        "band",
        "deadline",
        "flow",
        "gives_up_at",
        "order",
        "owner",
        "priority",
        "size",
        "slo_at",
        "state",
        "work",
    )

    def __init__(
        self,
        owner: object,
        *,
        flow: str,
        priority: int,
        work: int,
        size: int,
        arrived: float,
        deadline: float = math.inf,
        gives_up_at: float = math.inf,
        slo_at: float = math.inf,
    ) -> None:
        self.owner = owner
        """The caller's object for the request; opaque to the queue."""
        self.flow = flow
        """The flow that it belongs to in its band, a tenant or a session; "" if unknown."""
        self.priority = priority
        self.work = work
        """Tokens: uncached ones of the prompt, and the expected ones of the response."""
        self.size = size
        """Bytes that it holds while it waits."""
        self.arrived = arrived
        self.deadline = deadline
        """The end of its time to live, as of its arrival: the budget restarts when the pool gets its first
        endpoint, or loses its last."""
        self.gives_up_at = gives_up_at
        """When its client gives up, whatever happens to the pool."""
        self.slo_at = slo_at
        """When its first token is due; infinite without an objective."""
        self.order = 0
        """Order of arrival in its queue."""
        self.band = 0
        """The priority of its band, which may be lower than its own."""
        self.state: Literal["new", "queued", "sent", "dropped", "left"] = "new"
        """`left`: its client has gone."""
