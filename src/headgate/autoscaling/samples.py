"""What is known of a target at one moment. Times are seconds since the epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

__all__ = ["Observation", "PodSample", "Total"]


class PodSample(NamedTuple):
    """One replica. A metric that could not be measured is absent from `values`: it is not 0."""

    name: str
    is_ready: bool
    values: Mapping[str, float]
    created_at: float | None = None
    """When the Pod was created; from this, the time that a replica takes to start is learned."""


class Total(NamedTuple):
    """A metric of the target as a whole: a sum over its replicas, or, with `is_ratio`, their mean."""

    value: float
    is_ratio: bool = False


class Observation(NamedTuple):
    now: float
    current: int
    """Replicas that the scale subresource asks for (spec.replicas)."""
    ready: int
    pods: Sequence[PodSample] = ()
    """The replicas that exist; if these are fewer than `current`, the others count as not measured."""
    totals: Mapping[str, Total] = {}
    idle_since: float | None = None
    """Since when the gateways have seen no request; None if they saw one just now, or if nobody knows."""
    is_wanted: bool = False
    """Whether a request waits for a target without replicas."""
