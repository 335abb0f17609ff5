"""The integer program of demands: its variables, its constraints, and the way back from its solutions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from headgate.planning.milp import Program
from headgate.planning.problem import Demand, Option, Problem
from headgate.planning.sizing import fewest

__all__ = ["Counts", "DemandModel", "is_served", "price", "served_share"]

Counts: TypeAlias = tuple[int, ...]
"""Replicas of each option, of all demands in order."""

_SLACK: Final = 1e-9
"""A demand may exceed its capacity by this share, in rounding."""


def price(option: Option, replicas: int, switching: float) -> float:
    """Of running them, and of starting and stopping others to get there."""
    return option.cost * (replicas + switching * abs(replicas - option.current))


def served_share(demand: Demand, counts: Sequence[int]) -> float:
    """The share of the requests that these replicas of its options take."""
    if demand.rate_per_s <= 0:
        return 1.0
    taken = sum(n * option.rate_per_s for n, option in zip(counts, demand.options, strict=True))
    return 1.0 if taken >= demand.rate_per_s * (1 - 2 * _SLACK) else taken / demand.rate_per_s


def is_served(demand: Demand, counts: Sequence[int]) -> bool:
    """Whether all requests are taken, and every server has its minimum."""
    if not demand.options or served_share(demand, counts) < 1:
        return False
    replicas: dict[str, int] = {}
    for n, option in zip(counts, demand.options, strict=True):
        replicas[option.server] = replicas.get(option.server, 0) + n
    return all(replicas[option.server] >= option.minimum for option in demand.options)


class DemandModel:
    """One program. `served` and `shares` have a variable for each demand; `objective` is the cost, and
    `changes` counts replicas to start and to stop."""

    def __init__(
        self,
        demands: Sequence[Demand],
        problem: Problem,
        capacity: Mapping[str, int] | None,
        floors: Sequence[float] | None = None,
    ) -> None:
        """`floors`: the least cost of each demand, which holds for every plan that serves it whole."""
        self.demands = tuple(demands)
        self.program = Program()
        self.served: list[int] = []
        self.shares: list[int] = []
        self.objective: dict[int, float] = {}
        self.changes: dict[int, float] = {}
        self.limits: dict[str, int] = {}
        """The constraint of each type of accelerators."""
        self.switching = problem.switching
        self._capacity = capacity
        self._replicas: list[list[int]] = []
        self._running: list[dict[int, int]] = []
        self._steps: list[dict[int, tuple[int, int]]] = []
        for index, demand in enumerate(self.demands):
            self._add(demand, problem.best_effort)
            if floors is not None:
                self._floor(index, floors[index])
        if capacity is not None:
            self._limit(capacity)

    def counts(self, values: Sequence[float]) -> Counts:
        return tuple(round(values[index]) for index in itertools.chain.from_iterable(self._replicas))

    def start(self, counts: Counts) -> list[float]:
        """All variables, from the replicas."""
        values = [0.0] * self.program.size
        left = iter(counts)
        for index, demand in enumerate(self.demands):
            own = [next(left) for _ in demand.options]
            for place, n in enumerate(own):
                values[self._replicas[index][place]] = n
            for place, variable in self._running[index].items():
                values[variable] = float(own[place] > 0)
            for place, (started, stopped) in self._steps[index].items():
                change = own[place] - demand.options[place].current
                values[started], values[stopped] = max(change, 0), max(-change, 0)
            values[self.served[index]] = float(is_served(demand, own))
            if self.shares:
                values[self.shares[index]] = served_share(demand, own)
        return values

    def cost(self, counts: Counts) -> float:
        options = itertools.chain.from_iterable(demand.options for demand in self.demands)
        return sum(price(option, n, self.switching) for option, n in zip(options, counts, strict=True))

    def _add(self, demand: Demand, best_effort: bool) -> None:
        served = self.program.variable(0, 1 if demand.options else 0, whole=True)
        self.served.append(served)
        replicas = [
            self.program.variable(0, self._most(demand, option), whole=True) for option in demand.options
        ]
        self._replicas.append(replicas)
        self._running.append(self._one_option_per_server(demand, replicas))
        self._steps.append(self._switches(demand, replicas))
        taken = {
            variable: option.rate_per_s / demand.rate_per_s if demand.rate_per_s > 0 else 0.0
            for variable, option in zip(replicas, demand.options, strict=True)
        }
        if demand.rate_per_s > 0:
            self.program.constrain({**taken, served: -(1 - _SLACK)}, least=0)
        if best_effort:
            share = self.program.variable(0, 1)
            self.shares.append(share)
            self.program.constrain({**taken, share: -1.0}, least=0 if demand.rate_per_s > 0 else -1)
        for places in _by_server(demand.options).values():
            minimum = max(demand.options[place].minimum for place in places)
            if minimum:
                self.program.constrain({**{replicas[p]: 1.0 for p in places}, served: -minimum}, least=0)

    def _most(self, demand: Demand, option: Option) -> int:
        """More replicas would be of no use."""
        most = min(option.maximum, max(option.minimum, fewest(demand.rate_per_s, option.rate_per_s)))
        if self._capacity is None:
            return most
        return min(most, self._capacity.get(option.type, 0) // option.units)

    def _one_option_per_server(self, demand: Demand, replicas: Sequence[int]) -> dict[int, int]:
        """Variables that are 1 where a server with several options runs on one of them, by its place."""
        running: dict[int, int] = {}
        for places in _by_server(demand.options).values():
            if len(places) == 1:
                continue
            for place in places:
                running[place] = self.program.variable(0, 1, whole=True)
                most = self._most(demand, demand.options[place])
                self.program.constrain({replicas[place]: 1.0, running[place]: -most}, most=0)
            self.program.constrain({running[place]: 1.0 for place in places}, most=1)
        return running

    def _switches(self, demand: Demand, replicas: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Variables for replicas started and stopped, where there are some now; fills the objective."""
        changes: dict[int, tuple[int, int]] = {}
        for place, (variable, option) in enumerate(zip(replicas, demand.options, strict=True)):
            extra = self.switching * option.cost
            self.objective[variable] = option.cost
            if not option.current:
                self.objective[variable] += extra
                self.changes[variable] = 1.0
            else:
                started, stopped = self.program.variable(), self.program.variable()
                changes[place] = started, stopped
                self.objective |= {started: extra, stopped: extra}
                self.changes |= {started: 1.0, stopped: 1.0}
                self.program.constrain(
                    {variable: 1.0, started: -1.0, stopped: 1.0}, least=option.current, most=option.current
                )
        return changes

    def _floor(self, index: int, least: float) -> None:
        terms = {variable: self.objective[variable] for variable in self._replicas[index]}
        for variable in itertools.chain.from_iterable(self._steps[index].values()):
            terms[variable] = self.objective[variable]
        self.program.constrain({**terms, self.served[index]: -least * (1 - _SLACK)}, least=0)

    def _limit(self, capacity: Mapping[str, int]) -> None:
        used: dict[str, dict[int, float]] = {}
        for demand, replicas in zip(self.demands, self._replicas, strict=True):
            for variable, option in zip(replicas, demand.options, strict=True):
                used.setdefault(option.type, {})[variable] = float(option.units)
        for kind in sorted(used):
            self.limits[kind] = self.program.constrain(used[kind], most=capacity.get(kind, 0))


def _by_server(options: Iterable[Option]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for place, option in enumerate(options):
        places.setdefault(option.server, []).append(place)
    return places
