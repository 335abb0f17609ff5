"""Ways to serve demands, and the prices of others: what column generation works on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from headgate.planning import covering
from headgate.planning.choosing import Chosen, Wanted, choose, classes_of
from headgate.planning.demand_model import Counts, DemandModel, is_served
from headgate.planning.mixture import Column, Mixture, Prices
from headgate.planning.problem import Demand, Problem
from headgate.planning.search import Array

__all__ = ["Bound", "Pool", "cost_of", "is_enough", "missed_of", "rank", "step_of"]

_EQUAL: Final = 1e-7
_MOST: Final = 2000
"""Columns of one demand within a gap."""
_WITHIN_NODES: Final = 5000
_PRICING_NODES: Final = 4000
_FITTING_NODES: Final = 1000
_GUESS_S: Final = 1.0
"""Time for prices to begin with."""
_LEAST_FEE: Final = 1e-7
"""For accelerators that are not scarce: of equal columns, those with fewer accelerators are better."""
_COLUMN_S: Final = 1e-5
"""Seconds that a column takes in the program of a search, roughly, before the solver begins."""
_UNITS: Final = 1e6
"""Costs are compared in millionths."""


class Bound(NamedTuple):
    total: float
    alone: list[float]
    """The least reduced price of each demand."""
    prices: Prices


class _Accelerators(NamedTuple):
    """What the options of a demand use."""

    kinds: list[int]
    """Places of their types."""
    units: list[int]
    cover: covering.Cover
    free: covering.Cover
    """As if accelerators cost nothing."""


def _accelerators(demand: Demand, kinds: Mapping[str, int], switching: float) -> _Accelerators:
    options = tuple(msgspec.structs.replace(option, cost=0.0, current=0) for option in demand.options)
    return _Accelerators(
        [kinds[option.type] for option in demand.options],
        [option.units for option in demand.options],
        covering.Cover(demand, switching),
        covering.Cover(msgspec.structs.replace(demand, options=options), 0.0),
    )


class Spent:
    """Time."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.search_s = 0.0
        """By the nodes of searches."""
        self._now = now
        self._began_s = now()

    @property
    def elapsed_s(self) -> float:
        return self._now() - self._began_s


class Pool:
    """Columns of all demands, and the prices of others."""

    def __init__(
        self,
        demands: Sequence[Demand],
        capacity: Mapping[str, int],
        switching: float,
        now: Callable[[], float],
    ) -> None:
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
        self.spent = Spent(now)
        self.best: list[Column] = []
        """The best plan so far."""
        self._classes = classes_of(demands)
        self._known: set[tuple[int, Counts]] = set()
        self._accelerators = [_accelerators(demand, self._kinds, switching) for demand in demands]
        self.idle = [self.column(index, (0,) * len(each.options)) for index, each in enumerate(demands)]
        self.add(self.idle)

    @property
    def kinds(self) -> list[str]:
        """Types of accelerators, in order."""
        return list(self._kinds)

    @property
    def seconds(self) -> float:
        """The time that was used, by the work that was done or by the clock, whichever is more."""
        return max(self.spent.search_s + self.mixture.seconds, self.spent.elapsed_s)

    def keep(self, chosen: list[Column]) -> None:
        """As the best plan, if it is one."""
        if rank(self, chosen) < rank(self, self.best):
            self.best = chosen

    def search(self, objective: Array, limit: float, seconds: float, *, in_depth: bool = True) -> Chosen:
        """The best choice of those columns that can be part of one whose objective is at most `limit`.

        It may be above the limit; then, there is none within it. See `choose` for the rest.
        """
        self.mixture.aim(objective)
        mix = self.mixture.solve()
        tolerance = _EQUAL * max(1.0, abs(limit) if math.isfinite(limit) else 1.0)
        if mix is None or mix.objective > limit + tolerance:
            return Chosen(None, math.inf, math.inf, True, 0.0, 0)
        is_near = (mix.reduced <= limit - mix.objective + tolerance) | (mix.values > _EQUAL)
        near = np.flatnonzero(is_near)
        columns = [self.mixture.columns[index] for index in near]
        spare = max(limit - mix.objective, 0.0) + tolerance
        unused = np.floor(spare / np.maximum(mix.prices.fees, _EQUAL)) if math.isfinite(limit) else np.inf
        least_used = np.maximum(self.capacity - unused, 0)
        wanted = Wanted(self._classes, self.group_of, self.required, self.capacity, least_used)
        found = choose(columns, wanted, objective[near], limit + tolerance, seconds, in_depth=in_depth)
        self.spent.search_s += found.seconds + len(near) * _COLUMN_S
        return found

    def column(self, index: int, counts: Counts) -> Column:
        return self._column(index, counts, is_served(self.demands[index], counts))

    def _column(self, index: int, counts: Counts, is_served: bool) -> Column:
        kinds, units, cover, _ = self._accelerators[index]
        used = [0] * len(self._kinds)
        for place, n in enumerate(counts):
            if n:
                used[kinds[place]] += n * units[place]
        return Column(index, counts, tuple(used), cover.price(counts), is_served)

    def add(self, columns: Sequence[Column]) -> bool:
        """Whether there is a new one."""
        new = []
        for column in columns:
            if (column.demand, column.counts) not in self._known:
                self._known.add((column.demand, column.counts))
                new.append(column)
        self.mixture.add(new)
        return bool(new)

    def misses(self, group: int) -> Array:
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

    def guess(self) -> Prices | None:
        """Prices of a plan with parts of replicas, for the cost of what is required; None: there is none."""
        capacity = dict(zip(self._kinds, self.capacity.astype(int).tolist(), strict=True))
        model = DemandModel(
            self.demands, Problem(demands=tuple(self.demands), switching=self.switching), capacity
        )
        rows = [
            model.program.constrain({model.served[index]: 1.0 for index in members}, least=number)
            for members, number in zip(self.groups, self.required, strict=True)
        ]
        found = model.program.relaxed(model.objective, _GUESS_S)
        if found is None:
            return None
        self.spent.search_s += found.seconds
        fees = [-found.duals[model.limits[kind]] for kind in self._kinds]
        return Prices(np.maximum(fees, 0), np.maximum([found.duals[row] for row in rows], 0))

    def bound(self, prices: Prices, group: int | None) -> tuple[Bound, list[Column]] | None:
        """What prices prove, and the best columns at these; None: unknown.

        For the demands of a group that are not served, or, without a group, for the cost.
        """
        fees = np.maximum(prices.fees, _LEAST_FEE if group is not None else 0.0)
        alone: list[float] = []
        columns: list[Column] = []
        known = self._known_choices(fees, group)
        own_fees = fees.tolist()
        for index in range(len(self.demands)):
            idle = self._idle_price(index, group)
            if group is not None and self.group_of[index] > group:
                alone.append(idle)
                continue
            own = self._own_fees(index, own_fees)
            found = self._cover(index, group).cheapest(own, _PRICING_NODES, known.get(index))
            if found is None:
                if self.must_be_served(index) or covering.can_serve(self.demands[index]):
                    return None
                alone.append(idle)
                continue
            self.spent.search_s += found.nodes * covering.NODE_S
            served = found.bound - self._reward(index, prices.rewards)
            alone.append(served if self.must_be_served(index) else min(idle, served))
            columns.append(self._column(index, found.counts, True))
        total = sum(alone) - float(fees @ self.capacity)
        total += sum(
            float(reward) * number
            for group_, (reward, number) in enumerate(zip(prices.rewards, self.required, strict=True))
            if number < len(self.groups[group_])
        )
        return Bound(total, alone, Prices(fees, prices.rewards)), columns

    def _known_choices(self, fees: Array, group: int | None) -> dict[int, covering.Known]:
        """The best columns so far of demands that are served, at these fees."""
        prices = self.mixture.used @ fees
        if group is None:
            prices = prices + self.costs()
        prices = np.where(self.mixture.served, prices, np.inf)
        order = np.argsort(prices, kind="stable")
        _, first = np.unique(self.mixture.demand_of[order], return_index=True)
        best = order[first]
        return {
            self.mixture.columns[place].demand: covering.Known(
                self.mixture.columns[place].counts, float(prices[place])
            )
            for place in best
            if np.isfinite(prices[place])
        }

    def add_within(self, bound: Bound, gap: float, group: int | None) -> bool | None:
        """Add all columns that a plan within this gap can have.

        Returns whether any is new, None if they are too many.
        """
        new: list[Column] = []
        fees = bound.prices.fees.tolist()
        for index in range(len(self.demands)):
            if group is not None and self.group_of[index] > group:
                continue
            limit = bound.alone[index] + gap + self._reward(index, bound.prices.rewards)
            own = self._own_fees(index, fees)
            found = self._cover(index, group).within(own, limit, _MOST, _WITHIN_NODES)
            if found is None:
                return None
            new += [self._column(index, counts, True) for counts in found]
        return self.add(new)

    def fitting(self, index: int, fees: Array, available: Array) -> Column | None:
        """The best column at these fees with no more accelerators than there are; None: not found."""
        demand = self.demands[index]
        options = []
        for option, place in zip(demand.options, self._accelerators[index].kinds, strict=True):
            most = min(option.maximum, int(available[place] + _EQUAL) // option.units)
            if most < option.minimum:
                return None
            options.append(msgspec.structs.replace(option, maximum=most))
        within = msgspec.structs.replace(demand, options=tuple(options))
        found = covering.cheapest(
            within, self.switching, self._own_fees(index, fees.tolist()), _FITTING_NODES
        )
        if found is None:
            return None
        self.spent.search_s += found.nodes * covering.NODE_S
        column = self.column(index, found.counts)
        return column if np.all(np.array(column.used) <= available + _EQUAL) else None

    def _own_fees(self, index: int, fees: Sequence[float]) -> list[float]:
        own = self._accelerators[index]
        return [fees[kind] * units for kind, units in zip(own.kinds, own.units, strict=True)]

    def _cover(self, index: int, group: int | None) -> covering.Cover:
        own = self._accelerators[index]
        return own.cover if group is None else own.free

    def _idle_price(self, index: int, group: int | None) -> float:
        if group is None:
            return self.idle[index].cost
        return float(self.group_of[index] == group)

    def _reward(self, index: int, rewards: Array) -> float:
        return 0.0 if self.must_be_served(index) else float(rewards[self.group_of[index]])


def cost_of(chosen: Sequence[Column]) -> float:
    return sum(column.cost for column in chosen)


def missed_of(pool: Pool, group: int, chosen: Sequence[Column]) -> int:
    return sum(not chosen[index].is_served for index in pool.groups[group])


def is_enough(pool: Pool, chosen: Sequence[Column]) -> bool:
    return all(
        missed_of(pool, group, chosen) <= len(members) - pool.required[group]
        for group, members in enumerate(pool.groups)
    )


def rank(pool: Pool, chosen: Sequence[Column]) -> tuple[float, ...]:
    """The lower, the better the plan is."""
    return *(missed_of(pool, group, chosen) for group in range(len(pool.groups))), cost_of(chosen)


def step_of(pool: Pool) -> float:
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
