"""The exact plan: how many replicas of each server, for all demands together.

Lexicographic: most demands served whole by priority, with best effort also the largest shares of the others,
and then the least cost, in which changes have their price. Without a shortage each demand is planned alone,
which is fast; otherwise one integer program has them all. When time runs out, the best plan so far is used,
and its gap says how much less another one could cost.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from headgate.planning import columns, covering
from headgate.planning.demand_model import Counts, DemandModel, is_served, price, served_share
from headgate.planning.milp import Outcome
from headgate.planning.problem import Assignment, Demand, Option, Plan, Problem
from headgate.planning.sizing import fewest

__all__ = ["plan"]

_EQUAL: Final = 1e-6
"""What later steps may lose of the result of an earlier one, in rounding."""
_ATTEMPT: Final = 0.5
"""Share of the time for the first of two steps: demands alone, and the attempt to serve all of them."""


class _Found(NamedTuple):
    counts: Counts
    bound: float
    is_optimal: bool


class _Clock:
    """The time that is left, by what the solver says that it took, and by a clock if there is one."""

    def __init__(self, limit_s: float, now: Callable[[], float]) -> None:
        self.now = now
        self._ends_s = now() + limit_s
        self._left_s = limit_s

    @property
    def left_s(self) -> float:
        return max(0.0, min(self._left_s, self._ends_s - self.now()))

    @left_s.setter
    def left_s(self, seconds: float) -> None:
        self._left_s = seconds

    def took(self, outcome: Outcome) -> Outcome:
        self.left_s = max(0.0, self.left_s - outcome.seconds)
        return outcome


def plan(problem: Problem, limit_s: float = 10.0, clock: Callable[[], float] | None = None) -> Plan:
    """Plan within `limit_s` seconds of solving; always returns a plan.

    The order of demands and of their options has no influence. Time is counted by what solver and searches
    say that they took. With a clock, which gives seconds, a busy machine gets a plan in time, too: the step
    that is going on is finished.
    """
    demands = [
        msgspec.structs.replace(
            demand, options=tuple(sorted(demand.options, key=lambda each: (each.server, each.accelerator)))
        )
        for demand in sorted(problem.demands, key=lambda demand: (demand.priority, demand.name))
    ]
    left = _Clock(limit_s, clock or _never)
    if problem.capacity is not None:
        left.left_s = limit_s * _ATTEMPT
    alone = [_alone(demand, problem, left) for demand in demands]
    if problem.capacity is None or _fits(demands, alone, problem.capacity):
        return _as_plan(demands, problem, _merged(alone))
    start = _first_fit(demands, alone, problem.capacity)
    left.left_s += limit_s * (1 - _ATTEMPT)
    found = _by_columns(demands, problem, problem.capacity, start, left)
    if found is not None:
        if not problem.best_effort or (found.is_optimal and _is_whole(demands, found.counts)):
            return _as_plan(demands, problem, found)
        start = found.counts
    model = DemandModel(demands, problem, problem.capacity, [found.bound for found in alone])
    return _as_plan(demands, problem, _solved(model, start, left))


def _never() -> float:
    """A clock that stands still."""
    return 0.0


def _by_columns(
    demands: Sequence[Demand], problem: Problem, capacity: Mapping[str, int], start: Counts, clock: _Clock
) -> _Found | None:
    """The fast way, for demands that are served whole or not at all. With best effort, half of the time is
    kept for others."""
    if not problem.switching:
        return None
    clock.left_s /= 2 if problem.best_effort else 1
    parts = list(_parts(demands, start))
    best = columns.best_within(demands, capacity, problem.switching, parts, clock.left_s, clock.now)
    return None if best is None else _Found(best.counts, best.bound, best.is_optimal)


def _parts(demands: Sequence[Demand], counts: Counts) -> Iterator[Counts]:
    """The replicas of each demand."""
    left = iter(counts)
    for demand in demands:
        yield tuple(next(left) for _ in demand.options)


def _is_whole(demands: Sequence[Demand], counts: Counts) -> bool:
    return all(is_served(demand, own) for demand, own in zip(demands, _parts(demands, counts), strict=True))


def _alone(demand: Demand, problem: Problem, clock: _Clock) -> _Found:
    """The plan of one demand with as many accelerators as it wants."""
    found = covering.cheapest(demand, problem.switching) if problem.switching else None
    if found is not None:
        clock.left_s = max(0.0, clock.left_s - found.nodes * covering.NODE_S)
    if found is not None and found.bound == found.price:
        return _Found(found.counts, found.price, True)
    if len(demand.options) > 1:
        whole = (counts for counts in _on_one_option(demand) if is_served(demand, counts))
        start = next(whole, (0,) * len(demand.options)) if found is None else found.counts
        solved = _solved(DemandModel([demand], problem, None), start, clock)
        return solved._replace(bound=max(solved.bound, _least_cost(demand, solved.counts)))
    counts = tuple(_whole(demand, option) for option in demand.options)
    if not is_served(demand, counts) and not problem.best_effort:
        counts = (0,) * len(counts)
    cost = sum(price(each, n, problem.switching) for each, n in zip(demand.options, counts, strict=True))
    return _Found(counts, cost, True)


def _least_cost(demand: Demand, counts: Counts) -> float:
    """A bound that needs no solver: as if parts of replicas were possible."""
    rate_per_s = demand.rate_per_s * served_share(demand, counts)
    return rate_per_s * min(option.cost / option.rate_per_s for option in demand.options)


def _whole(demand: Demand, option: Option) -> int:
    """Replicas for all of it, or as many as there may be."""
    return min(option.maximum, max(option.minimum, fewest(demand.rate_per_s, option.rate_per_s)))


def _merged(found: Sequence[_Found]) -> _Found:
    counts = tuple(itertools.chain.from_iterable(each.counts for each in found))
    return _Found(counts, sum(each.bound for each in found), all(each.is_optimal for each in found))


def _used(demand: Demand, counts: Counts) -> dict[str, int]:
    """Accelerators by type."""
    used: dict[str, int] = {}
    for n, option in zip(counts, demand.options, strict=True):
        used[option.type] = used.get(option.type, 0) + n * option.units
    return used


def _fits(demands: Sequence[Demand], found: Sequence[_Found], capacity: Mapping[str, int]) -> bool:
    left = dict(capacity)
    return all(_take(left, _used(each, one.counts)) for each, one in zip(demands, found, strict=True))


def _take(left: dict[str, int], used: Mapping[str, int]) -> bool:
    """Take them if they are there."""
    if any(number > left.get(kind, 0) for kind, number in used.items()):
        return False
    for kind, number in used.items():
        left[kind] = left.get(kind, 0) - number
    return True


def _first_fit(demands: Sequence[Demand], alone: Sequence[_Found], capacity: Mapping[str, int]) -> Counts:
    """A plan to begin with: by priority, each demand on what is left, or not at all."""
    left, chosen = dict(capacity), []
    for demand, found in zip(demands, alone, strict=True):
        tries = [found.counts, *_on_one_option(demand)]
        fitting = (each for each in tries if is_served(demand, each) and _take(left, _used(demand, each)))
        chosen.append(next(fitting, (0,) * len(demand.options)))
    return tuple(itertools.chain.from_iterable(chosen))


def _on_one_option(demand: Demand) -> Iterator[Counts]:
    """All of it on one option, the cheapest first."""
    whole = [_whole(demand, option) for option in demand.options]
    for place in sorted(range(len(whole)), key=lambda place: whole[place] * demand.options[place].cost):
        yield tuple(n if place == own else 0 for own, n in enumerate(whole))


def _solved(model: DemandModel, start: Counts, clock: _Clock) -> _Found:
    """All steps, from a plan that is possible."""
    found = _everything(model, start, clock)
    if found is None:
        best, is_proven = model.start(start), True
        for group in _priorities(model):
            for variables in [model.served, model.shares] if model.shares else [model.served]:
                best, is_sure = _most(model, best, [variables[index] for index in group], clock)
                is_proven = is_proven and is_sure
        outcome = clock.took(model.program.minimize(model.objective, clock.left_s, start=best))
        found = _Found(model.counts(best), -math.inf, False)
        if outcome.values is not None:
            found = _Found(model.counts(outcome.values), outcome.bound, is_proven and outcome.is_optimal)
    return found if model.switching else _with_fewest_changes(model, found, clock)


def _everything(model: DemandModel, start: Counts, clock: _Clock) -> _Found | None:
    """The cheapest plan that serves all demands whole; None if there is none, or none was found.

    If the start is one, no time is kept for other steps.
    """
    if not all(demand.options for demand in model.demands):
        return None
    every = dict.fromkeys(model.served, 1.0)
    values = model.start(start)
    is_one = all(values[variable] for variable in model.served)
    limit_s = clock.left_s if is_one else clock.left_s * _ATTEMPT
    given = values if is_one else None
    outcome = clock.took(model.program.minimize(model.objective, limit_s, start=given, raised=every))
    if outcome.values is None:
        return None
    model.program.constrain(every, least=len(every))
    return _Found(model.counts(outcome.values), outcome.bound, outcome.is_optimal)


def _with_fewest_changes(model: DemandModel, found: _Found, clock: _Clock) -> _Found:
    """Where changes have no price, plans that cost the same may still differ in them."""
    cost = model.cost(found.counts)
    model.program.constrain(model.objective, most=cost + _EQUAL)
    start = model.start(found.counts)
    outcome = clock.took(model.program.minimize(model.changes, clock.left_s, start=start))
    return found if outcome.values is None else found._replace(counts=model.counts(outcome.values))


def _priorities(model: DemandModel) -> Iterator[list[int]]:
    """Indexes of demands with the same priority; they are sorted by it."""
    indexes = range(len(model.demands))
    for _, group in itertools.groupby(indexes, key=lambda index: model.demands[index].priority):
        yield list(group)


def _most(
    model: DemandModel, best: list[float], variables: Sequence[int], clock: _Clock
) -> tuple[list[float], bool]:
    """Make the sum of the variables as large as can be, and keep it so."""
    is_proven = sum(best[variable] for variable in variables) >= len(variables) - _EQUAL
    if not is_proven:
        wanted = dict.fromkeys(variables, -1.0)
        outcome = clock.took(model.program.minimize(wanted, clock.left_s / 2, start=best))
        if outcome.values is not None:
            best, is_proven = model.start(model.counts(outcome.values)), outcome.is_optimal
    reached = sum(best[variable] for variable in variables)
    model.program.constrain(dict.fromkeys(variables, 1.0), least=reached - _EQUAL)
    return best, is_proven


def _as_plan(demands: Sequence[Demand], problem: Problem, found: _Found) -> Plan:
    assignments: list[Assignment] = []
    served: dict[str, float] = {}
    switching = 0.0
    for demand, counts in zip(demands, _parts(demands, found.counts), strict=True):
        served[demand.name] = served_share(demand, counts) if demand.options else 0.0
        total = sum(n * option.rate_per_s for n, option in zip(counts, demand.options, strict=True))
        for n, option in zip(counts, demand.options, strict=True):
            switching += price(option, n, problem.switching) - option.cost * n
            if n:
                share = n * option.rate_per_s / total
                assignments.append(Assignment(demand=demand.name, option=option, replicas=n, share=share))
    return Plan(
        assignments=tuple(assignments),
        served=served,
        cost=sum(each.cost for each in assignments),
        switching_cost=switching,
        bound=found.bound,
        is_optimal=found.is_optimal,
    )
