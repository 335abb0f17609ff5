"""Whole demands within the capacity, by priority, at the least cost: exact, by column generation.

A column is one way to serve one demand. A linear program mixes columns within the capacity, and its prices of
accelerators tell which other columns would help, until none does. Its value is a bound that is almost always
within a thousandth of the best plan. Only columns whose reduced cost is within a gap can be part of a plan
within the same gap, so a search over all of those finds the best plan, or proves that the gap is too narrow.

First, as many demands of each priority as possible are served, in order; then, the cost is minimized.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from headgate.planning import branching, covering
from headgate.planning.demand_model import Counts, is_served, price
from headgate.planning.mixture import Column, Mix, Mixture
from headgate.planning.problem import Demand
from headgate.planning.search import Array

__all__ = ["Best", "best_within"]

_ROUNDS: Final = 100
_EQUAL: Final = 1e-7
_FIRST_GAP: Final = 2e-4
"""That the search begins with, as a share of the bound."""
_WIDER: Final = 2.0
_WIDEST: Final = 100.0
_MOST: Final = 2000
"""Columns of one demand within a gap."""
_PRICING_NODES: Final = 4000
_NODE_S: Final = 1.5e-3
"""Seconds that a node of the last search takes, roughly."""
_FIRST_NODES: Final = 300
"""Enough for a plan that is not proven."""
_LEAST_FEE: Final = 1e-7
"""For accelerators that are not scarce: of equal columns, those with fewer accelerators are better."""
_UNITS: Final = 1e6
"""Costs are compared in millionths."""


class Best(NamedTuple):
    counts: Counts
    bound: float
    is_optimal: bool
    seconds: float


def best_within(
    demands: Sequence[Demand],
    capacity: Mapping[str, int],
    switching: float,
    start: Sequence[Counts],
    limit_s: float,
) -> Best | None:
    """The best plan, from one that keeps to the capacity; None if changes cost as much as replicas."""
    counts = [(0,) * len(demand.options) for demand in demands]
    wanted = [index for index, demand in enumerate(demands) if demand.options and not _is_idle(demand)]
    if switching >= 1 or not wanted:
        return None
    pool = _Pool([demands[index] for index in wanted], capacity, switching)
    chosen = [pool.column(place, start[index]) for place, index in enumerate(wanted)]
    pool.add(chosen)
    found = _at_once(pool, chosen, limit_s) or _one_by_one(pool, chosen, limit_s)
    for index, column in zip(wanted, found.chosen, strict=True):
        counts[index] = column.counts
    return Best(tuple(itertools.chain.from_iterable(counts)), found.bound, found.is_optimal, pool.seconds)


def _is_idle(demand: Demand) -> bool:
    """Whether it needs no replicas."""
    return demand.rate_per_s <= 0 and not any(option.minimum for option in demand.options)


class _Found(NamedTuple):
    chosen: list[Column]
    bound: float
    is_optimal: bool

    @property
    def cost(self) -> float:
        return sum(column.cost for column in self.chosen)


class _Bound(NamedTuple):
    total: float
    alone: list[float]
    """The least reduced price of each demand."""
    fees: Array
    rewards: Array


class _Pool:
    """Columns of all demands, and the prices of others."""

    def __init__(self, demands: Sequence[Demand], capacity: Mapping[str, int], switching: float) -> None:
        self.demands = demands
        self.switching = switching
        kinds = sorted({option.type for demand in demands for option in demand.options})
        self._kinds = {kind: place for place, kind in enumerate(kinds)}
        self.capacity = np.array([capacity.get(kind, 0) for kind in kinds], float)
        priorities = sorted({demand.priority for demand in demands})
        self.group_of = [priorities.index(demand.priority) for demand in demands]
        self.groups = [
            [index for index, own in enumerate(self.group_of) if own == group]
            for group in range(len(priorities))
        ]
        self.required = [0] * len(priorities)
        self.mixture = Mixture([capacity.get(kind, 0) for kind in kinds], self.group_of, len(priorities))
        self.search_s = 0.0
        self._known: set[tuple[int, Counts]] = set()
        self._free = [
            msgspec.structs.replace(
                demand,
                options=tuple(
                    msgspec.structs.replace(option, cost=0.0, current=0) for option in demand.options
                ),
            )
            for demand in demands
        ]
        self._places = [[self._kinds[option.type] for option in demand.options] for demand in demands]
        self._units = [np.array([option.units for option in demand.options], float) for demand in demands]
        self.idle = [self.column(index, (0,) * len(each.options)) for index, each in enumerate(demands)]
        self.add(self.idle)

    @property
    def seconds(self) -> float:
        return self.search_s + self.mixture.seconds

    def nodes(self, limit_s: float) -> int:
        """As many as there is time for."""
        return max(0, int((limit_s - self.seconds) / _NODE_S))

    def column(self, index: int, counts: Counts) -> Column:
        demand = self.demands[index]
        used = [0] * len(self._kinds)
        cost = 0.0
        for n, option in zip(counts, demand.options, strict=True):
            used[self._kinds[option.type]] += n * option.units
            cost += price(option, n, self.switching)
        return Column(index, counts, tuple(used), cost, is_served(demand, counts))

    def add(self, columns: Sequence[Column]) -> bool:
        """Whether there is a new one."""
        new = []
        for column in columns:
            if (column.demand, column.counts) not in self._known:
                self._known.add((column.demand, column.counts))
                new.append(column)
        self.mixture.add(new)
        return bool(new)

    def missed(self, group: int) -> Array:
        """The objective of the demands that are not served."""
        return np.array(
            [
                float(not column.is_served and self.group_of[column.demand] == group)
                for column in self.mixture.columns
            ]
        )

    def costs(self) -> Array:
        return np.array([column.cost for column in self.mixture.columns])

    def must_be_served(self, index: int) -> bool:
        group = self.group_of[index]
        return self.required[group] == len(self.groups[group])

    def require(self, group: int, number: int) -> None:
        self.required[group] = number
        self.mixture.require(group, number)

    def bound(self, mix: Mix, group: int | None) -> tuple[_Bound, list[Column]] | None:
        """What the fees of a mix prove, and the best columns at these fees; None: unknown.

        For the demands of a group that are not served, or, without a group, for the cost.
        """
        fees = np.maximum(mix.fees, _LEAST_FEE if group is not None else 0.0)
        alone: list[float] = []
        columns: list[Column] = []
        for index in range(len(self.demands)):
            idle = self._idle_price(index, group)
            if group is not None and self.group_of[index] > group:
                alone.append(idle)
                continue
            own = self._own_fees(index, fees)
            found = covering.cheapest(self._priced(index, group), self._switching(group), own, _PRICING_NODES)
            if found is None:
                if self.must_be_served(index) or covering.can_serve(self.demands[index]):
                    return None
                alone.append(idle)
                continue
            self.search_s += found.nodes * covering.NODE_S
            served = found.bound - self._reward(index, mix.rewards)
            alone.append(served if self.must_be_served(index) else min(idle, served))
            columns.append(self.column(index, found.counts))
        total = sum(alone) - float(fees @ self.capacity)
        total += sum(
            float(reward) * number
            for group_, (reward, number) in enumerate(zip(mix.rewards, self.required, strict=True))
            if number < len(self.groups[group_])
        )
        return _Bound(total, alone, fees, mix.rewards), columns

    def add_within(self, bound: _Bound, gap: float, group: int | None) -> bool | None:
        """Add all columns that a plan within this gap can have.

        Returns whether any is new, None if they are too many.
        """
        new: list[Column] = []
        for index in range(len(self.demands)):
            if group is not None and self.group_of[index] > group:
                continue
            limit = bound.alone[index] + gap + self._reward(index, bound.rewards)
            own = self._own_fees(index, bound.fees)
            found = covering.within(self._priced(index, group), self._switching(group), own, limit, _MOST)
            if found is None:
                return None
            new += [self.column(index, counts) for counts in found]
        return self.add(new)

    def _own_fees(self, index: int, fees: Array) -> list[float]:
        return [float(each) for each in fees[self._places[index]] * self._units[index]]

    def _priced(self, index: int, group: int | None) -> Demand:
        return self.demands[index] if group is None else self._free[index]

    def _switching(self, group: int | None) -> float:
        return self.switching if group is None else 0.0

    def _idle_price(self, index: int, group: int | None) -> float:
        if group is None:
            return self.idle[index].cost
        return float(self.group_of[index] == group)

    def _reward(self, index: int, rewards: Array) -> float:
        return 0.0 if self.must_be_served(index) else float(rewards[self.group_of[index]])


def _mixed(pool: _Pool, group: int | None, limit_s: float) -> _Bound | None:
    """Add columns until none improves the mix; the best bound."""
    best: _Bound | None = None
    for _ in range(_ROUNDS):
        if best is not None and pool.seconds > limit_s:
            return best
        pool.mixture.aim(pool.costs() if group is None else pool.missed(group))
        mix = pool.mixture.solve()
        if mix is None:
            return None
        found = pool.bound(mix, group)
        if found is None:
            return None
        bound, columns = found
        best = bound if best is None or bound.total > best.total else best
        is_new = pool.add(columns)
        if group is not None and math.ceil(best.total - _EQUAL) >= math.ceil(mix.objective - _EQUAL):
            return best
        if not is_new or mix.objective - best.total <= _EQUAL * abs(mix.objective):
            return best
    return best


def _at_once(pool: _Pool, chosen: list[Column], limit_s: float) -> _Found | None:
    """As if as many demands could be served as fractions of them; None: no such plan was found."""
    for group, members in enumerate(pool.groups):
        missed = _missed(pool, group, chosen)
        if missed:
            bound = _mixed(pool, group, limit_s)
            if bound is None:
                return None
            missed = max(0, math.ceil(bound.total - _EQUAL))
        pool.require(group, len(members) - missed)
    is_enough = all(
        _missed(pool, group, chosen) <= len(members) - pool.required[group]
        for group, members in enumerate(pool.groups)
    )
    return _cheapest(pool, chosen if is_enough else None, limit_s)


def _one_by_one(pool: _Pool, chosen: list[Column], limit_s: float) -> _Found:
    """Serve as many demands as possible of each group in turn."""
    for group in range(len(pool.groups)):
        pool.require(group, 0)
    is_proven = True
    for group, members in enumerate(pool.groups):
        if _missed(pool, group, chosen):
            chosen, is_most = _most_served(pool, group, chosen, limit_s)
            is_proven = is_proven and is_most
        pool.require(group, len(members) - _missed(pool, group, chosen))
    found = _cheapest(pool, chosen, limit_s)
    if found is None:
        return _Found(chosen, -math.inf, False)
    return found._replace(is_optimal=found.is_optimal and is_proven)


def _most_served(pool: _Pool, group: int, chosen: list[Column], limit_s: float) -> tuple[list[Column], bool]:
    """Serve as many demands of the group as possible. Whether it is proven."""
    members = len(pool.groups[group])
    most = _missed(pool, group, chosen)
    bound = _mixed(pool, group, limit_s)
    if bound is None:
        return chosen, False
    is_proven = True
    for missed in range(max(0, math.ceil(bound.total - _EQUAL)), most):
        if pool.seconds > limit_s:
            return chosen, False
        found = branching.search(pool.mixture, pool.missed(group), missed, 1.0, pool.nodes(limit_s))
        if found.chosen is None and found.is_finished:
            added = pool.add_within(bound, missed - bound.total, group)
            if added:
                found = branching.search(pool.mixture, pool.missed(group), missed, 1.0, pool.nodes(limit_s))
            if added is None:
                found = found._replace(is_finished=False)
        if found.chosen is not None:
            return _filled(pool, found.chosen), is_proven
        if not found.is_finished:
            pool.require(group, members - missed)
            cheapest = _cheapest(pool, None, limit_s)
            if cheapest is not None:
                return _filled(pool, cheapest.chosen), is_proven
            pool.require(group, 0)
            is_proven = False
    return chosen, is_proven


def _missed(pool: _Pool, group: int, chosen: Sequence[Column]) -> int:
    return sum(not chosen[index].is_served for index in pool.groups[group])


def _filled(pool: _Pool, chosen: Sequence[Column]) -> list[Column]:
    """Serve others with what is left."""
    left = pool.capacity - sum(np.array(column.used, float) for column in chosen)
    filled = list(chosen)
    for column in sorted(pool.mixture.columns, key=lambda column: (column.demand, sum(column.used))):
        if column.is_served and not filled[column.demand].is_served:
            used = np.array(column.used, float)
            if np.all(used <= left):
                filled[column.demand] = column
                left -= used
    return filled


def _cheapest(pool: _Pool, chosen: list[Column] | None, limit_s: float) -> _Found | None:
    """The cheapest plan that serves what is required, from one that does; None: none was found."""
    bound = _mixed(pool, None, limit_s)
    if bound is None:
        return None
    step = _step(pool)
    gap = max(step, _FIRST_GAP * abs(bound.total))
    best = None if chosen is None else _Found(chosen, bound.total, False)
    most = math.inf if best is None else best.cost - bound.total
    while pool.seconds < limit_s:
        gap = min(gap, most)
        if pool.add_within(bound, gap, None) is None:
            break
        nodes = pool.nodes(limit_s) // (1 if best is not None and gap >= most else 2)
        found = branching.search(pool.mixture, pool.costs(), bound.total + gap, step, nodes)
        if found.chosen is not None:
            best = _Found(list(found.chosen), bound.total, False)
        if not found.is_finished:
            break
        if best is not None and (found.chosen is not None or gap >= most):
            return best._replace(bound=best.cost, is_optimal=True)
        if best is not None:
            best = best._replace(bound=bound.total + gap)
        gap *= _WIDER
        if best is None and gap > _WIDEST * abs(bound.total):
            return None
    limit = math.inf if best is None else best.cost - step
    found = branching.search(pool.mixture, pool.costs(), limit, step, _FIRST_NODES)
    if found.chosen is None:
        return best
    return _Found(list(found.chosen), bound.total if best is None else best.bound, False)


def _step(pool: _Pool) -> float:
    """All costs are multiples of it; 0: unknown."""
    step = 0
    for demand in pool.demands:
        for option in demand.options:
            change = pool.switching * option.cost
            for amount in (
                option.cost + change,
                2 * change if option.current else 0,
                change * option.current,
            ):
                units = round(amount * _UNITS)
                if abs(units - amount * _UNITS) > 1e-3:
                    return 0.0
                step = math.gcd(step, units)
    return step / _UNITS
