"""How long a replica takes from its creation to its first readiness, learned from those that started."""

from __future__ import annotations

import math
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from headgate.autoscaling.samples import Observation

__all__ = ["Starts"]

_MOST_STARTS: Final = 16
_MOST_COMING: Final = 32
_QUANTILE: Final = 0.75
_CLOCK_SKEW_S: Final = 5.0
_LONGEST_S: Final = 3600.0
"""A replica that took longer waited for something else, such as room in the cluster: nothing is learned."""


Duration: TypeAlias = Annotated[float, Meta(ge=0, le=1e12)]


class Starts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Only Pods that were created after the previous pass are followed: any other that is not ready may have
    been ready before."""

    durations_s: Annotated[tuple[Duration, ...], Meta(max_length=_MOST_STARTS)] = ()
    coming: Annotated[tuple[str, ...], Meta(max_length=_MOST_COMING)] = ()
    """Names of Pods that were never ready."""

    @property
    def expected_s(self) -> float | None:
        """Three of four replicas start within this time; None if none was seen."""
        if not self.durations_s:
            return None
        ordered = sorted(self.durations_s)
        return ordered[math.ceil(len(ordered) * _QUANTILE) - 1]

    def after(self, observation: Observation, passed_at: float | None) -> Starts:
        now = observation.now
        since = now if passed_at is None else passed_at - _CLOCK_SKEW_S
        coming, took = [], []
        for pod in observation.pods:
            created = pod.created_at
            if created is None or (created < since and pod.name not in self.coming):
                continue
            if pod.is_ready:
                took_s = max(now - created, 0.0)
                is_seen = pod.name in self.coming or (passed_at is not None and created > passed_at)
                if is_seen and took_s <= _LONGEST_S:
                    took.append(round(took_s, 1))
            else:
                coming.append(pod.name)
        if not took and not coming and not self.coming:
            return self
        return Starts(
            durations_s=(*self.durations_s, *sorted(took))[-_MOST_STARTS:],
            coming=tuple(sorted(coming)[:_MOST_COMING]),
        )
