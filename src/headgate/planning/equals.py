"""Whole choices out of a mix where demands are equal: an integer program of how many get each column.

A search over single demands would look at every order of the same plan.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from headgate.planning.branching import NODE_S, Search
from headgate.planning.milp import Program
from headgate.planning.mixture import Column
from headgate.planning.problem import Demand
from headgate.planning.search import Array

__all__ = ["classes_of", "search_equals"]

_EQUAL: Final = 1e-7
_IN_TIME: Final = 0.9
"""A run that ends before this share of its limit has looked at everything."""


def classes_of(demands: Sequence[Demand]) -> list[int]:
    """A number for each demand, the same for those that differ in names only."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(_figures(demand), len(numbers)) for demand in demands]


def _figures(demand: Demand) -> Hashable:
    servers: dict[str, int] = {}
    options = tuple(
        (
            servers.setdefault(option.server, len(servers)),
            (option.type, option.units, option.cost, option.rate_per_s),
            (option.minimum, option.maximum, option.current),
        )
        for option in demand.options
    )
    return demand.rate_per_s, demand.priority, options


def search_equals(
    columns: Sequence[Column],
    classes: Sequence[int],
    groups: Sequence[int],
    capacity: Array,
    required: Sequence[int],
    objective: Array,
    limit: float,
    nodes: int,
) -> Search:
    """The best choice whose objective is at most `limit`, in the time that so many nodes take.

    `classes` and `groups` are those of the demands; of each group, as many as `required` are served.
    """
    program = Program()
    kinds: dict[tuple[int, tuple[int, ...]], int] = {}
    aims: dict[int, float] = {}
    members = [
        [index for index, own in enumerate(classes) if own == each] for each in range(max(classes) + 1)
    ]
    first: list[Column] = []
    for column, aim in zip(columns, objective, strict=True):
        kind = classes[column.demand], column.counts
        if kind not in kinds:
            kinds[kind] = program.variable(0, len(members[kind[0]]), whole=True)
            aims[kinds[kind]] = float(aim)
            first.append(column)
    for number, own in enumerate(members):
        terms = {variable: 1.0 for kind, variable in kinds.items() if kind[0] == number}
        program.constrain(terms, least=len(own), most=len(own))
    for place, most in enumerate(capacity):
        program.constrain(
            {v: float(c.used[place]) for v, c in enumerate(first) if c.used[place]}, most=float(most)
        )
    for group, needed in enumerate(required):
        served = {v: 1.0 for v, c in enumerate(first) if c.is_served and groups[c.demand] == group}
        program.constrain(served, least=needed)
    tolerance = _EQUAL * max(1.0, abs(limit) if np.isfinite(limit) else 1.0)
    if np.isfinite(limit):
        program.constrain(aims, most=limit + tolerance)
    seconds = nodes * NODE_S
    outcome = program.minimize(aims, seconds)
    visited = max(1, round(outcome.seconds / NODE_S))
    if outcome.values is None:
        return Search(None, np.inf, outcome.seconds < _IN_TIME * seconds, visited)
    chosen: list[Column] = []
    for number, own in enumerate(members):
        of_class = [
            [first[variable].counts] * round(outcome.values[variable])
            for kind, variable in kinds.items()
            if kind[0] == number
        ]
        for index, counts in zip(own, itertools.chain.from_iterable(of_class), strict=True):
            column = first[kinds[number, counts]]
            chosen.append(column._replace(demand=index))
    chosen.sort(key=lambda column: column.demand)
    return Search(tuple(chosen), outcome.objective, outcome.is_optimal, visited)
