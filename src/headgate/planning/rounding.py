"""Good plans, fast: round a mix of columns, and plan a few demands at a time anew.

With a hundred replicas of a model, too many plans cost nearly the same to look at all of them.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from headgate.planning.demand_model import DemandModel
from headgate.planning.mixture import Column
from headgate.planning.pool import Bound, Pool, cost_of, is_enough
from headgate.planning.problem import Problem

__all__ = ["Rounded", "improved", "repaired", "rounded"]

_EQUAL: Final = 1e-7
_REFIT_S: Final = 0.3
_MODEL_S: Final = 5e-3
"""Seconds that the program of a few demands takes to build."""
_FREE: Final = 14
"""Demands that are planned anew at a time."""
_TRIES: Final = 30


class Rounded(NamedTuple):
    chosen: list[Column]
    """One column of each demand, within the capacity."""
    free: list[int]
    """Demands that the mix serves in parts, or that did not fit."""


def rounded(pool: Pool, bound: Bound) -> Rounded | None:
    """A plan near the best mix: what of it is whole, and for each other demand the best that fits into its
    share and into what those before it left. It may serve less than required; None: there is no mix."""
    mix = pool.mixture.solve()
    if mix is None:
        return None
    columns = pool.mixture.columns
    parts: list[list[int]] = [[] for _ in pool.demands]
    for place in np.flatnonzero(mix.values > _EQUAL):
        parts[columns[place].demand].append(int(place))
    shares = [mix.values[own] @ pool.mixture.used[own] for own in parts]
    served = [float(mix.values[own] @ pool.mixture.served[own]) for own in parts]
    likely, others = _by_likelihood(pool, served, [len(own) for own in parts])
    left = pool.capacity - sum(shares[index] for index in likely)
    chosen = list(pool.idle)
    for index in [*likely, *likely, *others]:
        if chosen[index].is_served:
            continue
        if index in likely:
            left = left + shares[index]
            shares[index] = np.zeros(len(left))
        whole = columns[parts[index][0]] if len(parts[index]) == 1 else None
        column = (
            whole if whole is not None and whole.is_served else pool.fitting(index, bound.prices.fees, left)
        )
        if column is not None and np.all(np.array(column.used) <= left + _EQUAL):
            chosen[index] = column
            left = left - np.array(column.used)
    pool.add(chosen)
    free = [
        index
        for index, own in enumerate(parts)
        if len(own) > 1 or (index in likely and not chosen[index].is_served)
    ]
    return Rounded(chosen, free)


def _by_likelihood(pool: Pool, served: Sequence[float], parts: Sequence[int]) -> tuple[list[int], list[int]]:
    """As many demands of each group as are served in parts, the most served first, and all others."""
    likely: list[int] = []
    others: list[int] = []
    for members in pool.groups:
        ordered = sorted(members, key=lambda index: (-round(served[index], 6), parts[index]))
        number = int(sum(served[index] for index in members) + _EQUAL)
        likely += ordered[:number]
        others += ordered[number:]
    return likely, others


def repaired(pool: Pool, plan: Rounded) -> list[Column] | None:
    """Serve what is required: plan those that did not fit anew, with ever more others; None: not found."""
    others = [index for index in range(len(plan.chosen)) if index not in plan.free]
    for more in (0, len(plan.free), 2 * len(plan.free)):
        spread = others[:: max(1, len(others) // max(more, 1))][:more]
        found = _refit(pool, plan.chosen, [*plan.free, *spread])
        if found is not None:
            return found
    return None


def improved(pool: Pool, chosen: list[Column], limit_s: float) -> list[Column]:
    """Plan a few demands anew at a time, as long as that helps and there is time."""
    rng, failures = random.Random(len(chosen)), 0  # noqa: S311 - equal problems have equal plans
    while pool.seconds < limit_s and failures < _TRIES:
        free = rng.sample(range(len(chosen)), min(len(chosen), _FREE))
        found = _refit(pool, chosen, free)
        failures += 1
        if found is not None and cost_of(found) < cost_of(chosen) - _EQUAL:
            chosen, failures = found, 0
    return chosen


def _refit(pool: Pool, chosen: Sequence[Column], free: Sequence[int]) -> list[Column] | None:
    """Plan some demands anew while all others stay, so that what is required is served; None: not found."""
    others = set(range(len(chosen))) - set(free)
    left = pool.capacity - sum(np.array(chosen[index].used) for index in others)
    demands = [pool.demands[index] for index in free]
    problem = Problem(demands=tuple(demands), switching=pool.switching)
    model = DemandModel(demands, problem, dict(zip(pool.kinds, left.astype(int).tolist(), strict=True)))
    for group, members in enumerate(pool.groups):
        needed = pool.required[group] - sum(chosen[index].is_served for index in members if index in others)
        own = {model.served[place]: 1.0 for place, index in enumerate(free) if pool.group_of[index] == group}
        if needed > len(own):
            return None
        if own and needed > 0:
            model.program.constrain(own, least=needed)
    start = model.start(tuple(itertools.chain.from_iterable(chosen[index].counts for index in free)))
    outcome = model.program.minimize(
        model.objective, _REFIT_S, start=start if is_enough(pool, chosen) else None
    )
    pool.spent.search_s += outcome.seconds + _MODEL_S
    if outcome.values is None:
        return None
    counts = iter(model.counts(outcome.values))
    found = list(chosen)
    for index in free:
        found[index] = pool.column(index, tuple(next(counts) for _ in pool.demands[index].options))
    return found
