"""What is known of the targets of a binding at one moment, from their Pods and from the gateways. Pure."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from headgate import api
from headgate.api.signal_names import MEANS, PREFIX
from headgate.autoscaling import Observation, PodSample, Policy, Total
from headgate.controllers.autoscaling.targets import Target
from headgate.engines import unified
from headgate.observe.signals import PoolLoad

SERVED: Final = unified.GENERATED.name
"""Counts the work of a Pod, from which the capacity of its hardware is learned."""


class Found(NamedTuple):
    """A target with its Pods."""

    target: Target
    pods: Sequence[api.Pod]
    """Those that are not leaving."""
    current: int
    ready_uids: frozenset[str]

    @classmethod
    def of(cls, target: Target, pods: Sequence[api.Pod], current: int) -> Found:
        return cls(target, pods, current, frozenset(pod.metadata.uid for pod in pods if pod.ready))

    @property
    def ready(self) -> int:
        return len(self.ready_uids)

    def samples(self, values: Mapping[str, Mapping[str, float]]) -> list[PodSample]:
        """Its Pods with the values that were read of them, by UID."""
        return [
            PodSample(pod.metadata.name, uid in self.ready_uids, values.get(uid, {}), _created_at(pod))
            for pod in self.pods
            for uid in (pod.metadata.uid,)
        ]


class Load(NamedTuple):
    """What gateways know of the pools of all targets together."""

    totals: Mapping[str, Total] = {}
    idle_s: float | None = None
    is_wanted: bool = False
    missing: tuple[str, ...] = ()
    """Why some of it is not known."""


def is_signal(metric: str) -> bool:
    """Whether gateways measure the metric."""
    return metric.startswith(PREFIX)


def load_of(policy: Policy, current: int, pools: Iterable[tuple[PoolLoad, float]]) -> Load:
    """Adds up the loads of pools, each with the share of its endpoints that are the targets'."""
    pools = list(pools)
    names = [each for each in policy.metrics if is_signal(each.name)]
    totals: dict[str, Total] = {}
    for name, target in names:
        known = [pool.metrics.get(name) for pool, _ in pools]
        if name in MEANS:
            means = [value for value in known if value is not None]
            if means and all(pool.is_known for pool, _ in pools):
                totals[name] = Total(max(means), is_ratio=True)
        elif pools and all(value is not None for value in known):
            totals[name] = Total(sum(pool.metrics[name] * share for pool, share in pools))
        else:
            # Without some gateway the sum may be more, never less: it counts where it asks for more.
            least = sum(pool.lower_bounds.get(name, 0.0) * share for pool, share in pools)
            if least > current * target:
                totals[name] = Total(least)
    idle = [pool.idle_s for pool, _ in pools]
    missing = tuple(dict.fromkeys(each for pool, _ in pools for each in pool.missing))
    return Load(
        totals=totals,
        idle_s=min((each for each in idle if each is not None), default=None) if None not in idle else None,
        is_wanted=any(pool.waiting_for_endpoints for pool, _ in pools),
        missing=missing if pools else ("no ModelServer or InferencePool selects the Pods",),
    )


def observation(
    found: Sequence[Found], values: Mapping[str, Mapping[str, float]], load: Load, now: float
) -> Observation:
    """All targets of a binding together; `values` are those of the Pods, by UID."""
    return Observation(
        now=now,
        current=sum(each.current for each in found),
        ready=sum(each.ready for each in found),
        pods=[sample for each in found for sample in each.samples(values)],
        totals=load.totals,
        idle_since=now - load.idle_s if load.idle_s is not None else None,
        is_wanted=load.is_wanted,
    )


def served(samples: Sequence[PodSample]) -> float | None:
    """Tokens per second of the ready Pods; None if one could not be measured."""
    ready = [each.values.get(SERVED) for each in samples if each.is_ready]
    known = [each for each in ready if each is not None]
    return sum(known) if len(known) == len(ready) else None


def _created_at(pod: api.Pod) -> float | None:
    return _seconds(pod.metadata.creation_timestamp)


@functools.lru_cache(maxsize=16384)
def _seconds(time: str) -> float | None:
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        return None
