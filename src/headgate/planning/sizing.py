"""The highest rate at which a replica meets its targets, for many replicas at once.

By default, the target of the first token holds for a percentile of requests, not for their mean: a replica
sized for the mean misses it for every fifth request or so. Then the prefills of others count as well, as they
stop the whole batch: between tokens, and as bursts that make requests wait. What the state-dependent queue
says without that is `Sizing.queue`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from headgate.planning.queueing import Analysis, Replicas, analyses, chunks
from headgate.planning.replica import ModelError, Replica
from headgate.planning.search import Array, Flags, bisect

__all__ = [
    "PERCENTILE",
    "Infeasible",
    "QueueRates",
    "Sizer",
    "Sizing",
    "Targets",
    "fewest",
    "size",
    "sizes",
]

PERCENTILE: Final = 95.0
_TPS_SHARE: Final = 0.9
"""With a target of throughput, this share of the highest rate is used, for stability."""
_SLACK: Final = 1e-9
"""Replicas that a rate exceeds by less than this share need no other one."""


class Targets(msgspec.Struct, frozen=True, kw_only=True):
    """Objectives of a class for a model; 0 is no target."""

    ttft_ms: float = 0.0
    itl_ms: float = 0.0
    """Of the mean request. With a percentile, the prefills of others count too."""
    tokens_per_s: float = 0.0
    """Throughput that all replicas together must be able to have."""
    percentile: float | None = PERCENTILE
    """Share of requests that must meet `ttft_ms`; None: their mean must."""

    def __post_init__(self) -> None:
        for name in ("ttft_ms", "itl_ms", "tokens_per_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ModelError(f"{name}: {getattr(self, name)} is not a target of at least 0")
        if self.percentile is not None and not 0 < self.percentile < 100:
            raise ModelError(f"percentile: {self.percentile} is not between 0 and 100")


class QueueRates(NamedTuple):
    """The highest rates by the state-dependent queue alone, which spreads prefills evenly over time."""

    ttft_per_s: float
    itl_per_s: float


class Sizing(NamedTuple):
    """What one replica can do."""

    ttft_rate_per_s: float
    itl_rate_per_s: float
    tps_rate_per_s: float
    """The highest rates for each target alone; the highest of all where there is none."""
    queue: QueueRates
    """Those of the reference: for the mean, equal to the above, and otherwise not lower."""
    at_limit: Analysis
    """At the lowest of the three."""

    @property
    def rate_per_s(self) -> float:
        """Arrivals at which all targets are met."""
        return self.at_limit.rate_per_s

    @property
    def capacity_per_s(self) -> float:
        """What it accepts of them."""
        return self.at_limit.throughput_per_s

    @property
    def binding(self) -> str:
        """The target that limits the rate: ttft, itl, tps."""
        rates = {"ttft": self.ttft_rate_per_s, "itl": self.itl_rate_per_s, "tps": self.tps_rate_per_s}
        return min(rates, key=lambda name: rates[name])


class Infeasible(NamedTuple):
    """Even an idle replica misses a target."""

    target: str
    wanted_ms: float
    best_ms: float

    @property
    def message(self) -> str:
        return (
            f"{self.target} of {self.wanted_ms:g} ms cannot be met: an idle replica has {self.best_ms:.4g} ms"
        )


def size(replica: Replica, targets: Targets) -> Sizing | Infeasible:
    """The sizing of one replica."""
    return sizes([(replica, targets)])[0]


def fewest(rate_per_s: float, capacity_per_s: float, minimum: int = 0) -> int:
    """The fewest replicas that can take this rate."""
    return max(minimum, math.ceil(rate_per_s / capacity_per_s * (1 - _SLACK)))


def sizes(wanted: Sequence[tuple[Replica, Targets]]) -> list[Sizing | Infeasible]:
    """The sizing of each replica, in order."""
    found: dict[int, Sizing | Infeasible] = {}
    for chunk in chunks([replica for replica, _ in wanted]):
        found.update(zip(chunk, _sized([wanted[index] for index in chunk]), strict=True))
    return [found[index] for index in range(len(wanted))]


def _sized(wanted: Sequence[tuple[Replica, Targets]]) -> list[Sizing | Infeasible]:
    model = Replicas([replica for replica, _ in wanted])
    ttft_ms = np.array([targets.ttft_ms for _, targets in wanted], float)
    itl_ms = np.array([targets.itl_ms for _, targets in wanted], float)
    share = np.array([math.nan if each.percentile is None else each.percentile / 100 for _, each in wanted])
    by_ttft, by_itl = _by_queue(model, ttft_ms, itl_ms, share)
    stalled_ttft, stalled_itl = _with_stalls(model, ttft_ms, itl_ms, share)
    ttft, itl = np.fmin(by_ttft, stalled_ttft), np.fmin(by_itl, stalled_itl)
    tps = np.where([each.tokens_per_s > 0 for _, each in wanted], _TPS_SHARE, 1) * model.max_rate_per_s
    percentile = np.where(np.isnan(share), PERCENTILE, share * 100)
    at_limit = analyses(model, np.fmin(np.fmin(ttft, itl), tps), percentile)  # of infeasible ones, at any
    idle = model.effective_batch(model.solve(model.min_rate_per_s))
    lone_ms = np.where(np.isnan(stalled_ttft), model.stalls.lone_ttft_ms(percentile), 0.0)
    best = {"TTFT": np.maximum(model.prefill_ms(idle), lone_ms), "ITL": model.itl_ms(idle)}
    sized: list[Sizing | Infeasible] = []
    for row, analysis in enumerate(at_limit):
        if math.isnan(by_ttft[row]) or math.isnan(stalled_ttft[row]):
            sized.append(Infeasible("TTFT", float(ttft_ms[row]), float(best["TTFT"][row])))
        elif math.isnan(by_itl[row]):
            sized.append(Infeasible("ITL", float(itl_ms[row]), float(best["ITL"][row])))
        else:
            queue = QueueRates(float(by_ttft[row]), float(by_itl[row]))
            sized.append(Sizing(float(ttft[row]), float(itl[row]), float(tps[row]), queue, analysis))
    return sized


def _by_queue(model: Replicas, ttft_ms: Array, itl_ms: Array, share: Array) -> tuple[Array, Array]:
    """The highest rates by TTFT and by ITL; nan: even an idle replica misses the target.

    `share` of the requests must meet that of TTFT; nan: their mean must.
    """
    is_mean = np.isnan(share)

    def miss_of(rate: Array) -> Array:
        state = model.solve(rate)
        if np.all(is_mean):
            return model.mean_ttft_ms(state)
        return np.where(is_mean, model.mean_ttft_ms(state), model.late_share(state, ttft_ms))

    def itl_of(rate: Array) -> Array:
        return model.itl_ms(model.effective_batch(model.solve(rate)))

    by_ttft = _search(model, miss_of, np.where(is_mean, ttft_ms, 1 - share), ttft_ms > 0)
    return by_ttft, _search(model, itl_of, itl_ms, itl_ms > 0)


def _with_stalls(model: Replicas, ttft_ms: Array, itl_ms: Array, share: Array) -> tuple[Array, Array]:
    """The same where prefills stop the whole batch, for those that are sized for a share of the requests.

    Whatever an idle replica meets, it meets at the lowest rate; but if prompts differ in length, too many may
    be too long.
    """
    is_share = ~np.isnan(share)
    if not np.any(is_share):
        return model.max_rate_per_s, model.max_rate_per_s

    def late_of(rate: Array) -> Array:
        return model.stalls.late_share(rate, ttft_ms)

    def itl_of(rate: Array) -> Array:
        return model.stalled_itl_ms(rate, model.effective_batch(model.solve(rate)))

    by_ttft = _search(model, late_of, np.where(is_share, 1 - share, 0.5), is_share & (ttft_ms > 0))
    by_itl = _search(model, itl_of, itl_ms, is_share & (itl_ms > 0))
    lowest = model.min_rate_per_s
    is_met = np.isnan(by_ttft) & ~model.prompts_differ
    return np.where(is_met, lowest, by_ttft), np.where(np.isnan(by_itl), lowest, by_itl)


def _search(model: Replicas, value_of: Callable[[Array], Array], target: Array, is_set: Flags) -> Array:
    """The highest rate of each replica that meets its target; nan if none does."""
    high = model.max_rate_per_s
    if not np.any(is_set):
        return high
    found = bisect(value_of, model.min_rate_per_s, high, target)
    return np.where(is_set, np.where(found.side < 0, math.nan, found.x), high)


class Sizer:
    """Sizes replicas, and remembers the results of the last `capacity` different ones."""

    def __init__(self, capacity: int = 10_000) -> None:
        self._capacity = capacity
        self._known: dict[tuple[Replica, Targets], Sizing | Infeasible] = {}
        self._hits = self._misses = 0

    def sizes(self, wanted: Sequence[tuple[Replica, Targets]]) -> list[Sizing | Infeasible]:
        """Like the function."""
        new = [each for each in dict.fromkeys(wanted) if each not in self._known]
        self._hits += len(wanted) - len(new)
        self._misses += len(new)
        known = {each: self._known.pop(each) for each in dict.fromkeys(wanted) if each in self._known}
        known.update(zip(new, sizes(new), strict=True))
        self._known.update(known)
        for each in list(self._known)[: max(0, len(self._known) - self._capacity)]:
            del self._known[each]
        return [known[each] for each in wanted]

    def statistics(self) -> dict[str, int]:
        return {"entries": len(self._known), "hits": self._hits, "misses": self._misses}
