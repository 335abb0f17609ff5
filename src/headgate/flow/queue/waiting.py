"""A request that waits for its turn, and what it is told if its turn does not come."""

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
"""Why a request was not sent, as `x-llm-d-request-dropped-reason` has it: `rejected` ones had no place, or
lost it by themselves, `evicted` ones had to make room for others."""

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
    """When it may be worth while to come again: whole seconds, at least 1."""

    @property
    def status(self) -> int:
        """Of the HTTP answer: 429 where others were before it, 503 where nobody is served."""
        return STATUSES[self.reason]


class Waiting:
    """One request that waits, or is about to. Times are in monotonic seconds."""

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
        """Whose request it is; nothing to the queue."""
        self.flow = flow
        """Of those it competes with in its band: a tenant, a session; "" is nobody that is known."""
        self.priority = priority
        self.work = work
        """Tokens: uncached ones of the prompt, and those that the answer is expected to have."""
        self.size = size
        """Bytes that it holds while it waits."""
        self.arrived = arrived
        self.deadline = deadline
        """The end of its time to live, as of its arrival: what is left starts anew when the pool gets its
        first endpoint, or loses its last."""
        self.gives_up_at = gives_up_at
        """When its client wants no answer any more, whatever happens to the pool."""
        self.slo_at = slo_at
        """When its first token should be there; infinite if nobody said."""
        self.order = 0
        """Of its arrival in its queue."""
        self.band = 0
        """The priority that it waits with, which may be a lower one than its own."""
        self.state: Literal["new", "queued", "sent", "dropped", "left"] = "new"
        """`left`: its client has gone."""
