"""Whether the last replica may go, and whether it must come back."""

from __future__ import annotations

from headgate.autoscaling.policy import Bounds
from headgate.autoscaling.samples import Observation

__all__ = ["fewest", "idle_at", "is_idle"]


def is_idle(bounds: Bounds, observation: Observation) -> bool:
    """Whether the gateways have seen no request for the grace period. What nobody knows is never idle."""
    at = idle_at(bounds, observation)
    return at is not None and observation.now >= at


def idle_at(bounds: Bounds, observation: Observation) -> float | None:
    """When the grace period is over if no request comes; None if it has not begun, or nobody knows."""
    since = observation.idle_since
    if bounds.minimum > 0 or bounds.zero_after_s is None or observation.is_wanted or since is None:
        return None
    return since + bounds.zero_after_s


def fewest(bounds: Bounds, observation: Observation) -> int:
    """The fewest replicas for now. A target at zero stays there until a request or a metric wants it."""
    if bounds.minimum > 0:
        return bounds.minimum
    if is_idle(bounds, observation):
        return 0
    return 1 if observation.current > 0 or observation.is_wanted else 0
