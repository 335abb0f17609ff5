"""Whole choices out of columns: an integer program of how many of equal demands get each column.

Demands that differ in names only are counted together, so that the solver looks at one order of a plan alone.
All columns are near the bound, so that cuts and few branches decide: heuristics and restarts of the solver
would take most of its time, and so would a row for the objective, which is dense.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

import numpy as np

from headgate.planning.milp import Program
from headgate.planning.mixture import Column
from headgate.planning.problem import Demand
from headgate.planning.search import Array

__all__ = ["Chosen", "Wanted", "choose", "classes_of"]

_IN_TIME: Final = 0.9
"""A run that ends before this share of its limit has looked at everything."""


class Wanted(NamedTuple):
    """What a choice has to keep to."""

    classes: Sequence[int]
    """Of each demand; those of a class are equal."""
    groups: Sequence[int]
    """Of each demand."""
    required: Sequence[int]
    """Demands of each group that are served."""
    capacity: Array
    least_used: Array
    """Accelerators of each type: a choice within a limit leaves few unused that have a price."""


class Chosen(NamedTuple):
    columns: tuple[Column, ...] | None
    """One of each demand, in order; None: there is none, or none was found."""
    objective: float
    bound: float
    """No choice of these columns is better."""
    is_finished: bool
    """Whether the choice is the best one, or it is proven that there is none."""
    seconds: float
    iterations: int
    """Of the solver."""


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


def choose(
    columns: Sequence[Column],
    wanted: Wanted,
    objective: Array,
    limit: float,
    limit_s: float,
    *,
    in_depth: bool = True,
) -> Chosen:
    """The best choice whose objective is about at most `limit`, within the time.

    Unless `in_depth`, a good one is looked for, not the best.
    """
    program = Program()
    kinds: dict[tuple[int, tuple[int, ...]], int] = {}
    aims: dict[int, float] = {}
    first: list[Column] = []
    members: dict[int, list[int]] = {}
    for index, own in enumerate(wanted.classes):
        members.setdefault(own, []).append(index)
    for column, aim in zip(columns, objective, strict=True):
        kind = wanted.classes[column.demand], column.counts
        if kind not in kinds:
            kinds[kind] = program.variable(0, len(members[kind[0]]), whole=True)
            aims[kinds[kind]] = float(aim)
            first.append(column)
    _constrain(program, wanted, first, {number: len(own) for number, own in members.items()})
    outcome = program.minimize(aims, limit_s, cutoff=limit, is_near=in_depth)
    if outcome.values is None:
        is_finished = outcome.seconds < _IN_TIME * limit_s
        bound = np.inf if is_finished else -np.inf
        return Chosen(None, np.inf, bound, is_finished, outcome.seconds, outcome.iterations)
    chosen: list[Column] = []
    for number, indexes in members.items():
        of_class = [
            [first[variable]] * round(outcome.values[variable])
            for kind, variable in kinds.items()
            if kind[0] == number
        ]
        for index, column in zip(indexes, itertools.chain.from_iterable(of_class), strict=True):
            chosen.append(column._replace(demand=index))
    chosen.sort(key=lambda column: column.demand)
    return Chosen(
        tuple(chosen),
        outcome.objective,
        outcome.bound,
        outcome.is_optimal,
        outcome.seconds,
        outcome.iterations,
    )


def _constrain(program: Program, wanted: Wanted, columns: Sequence[Column], sizes: dict[int, int]) -> None:
    """A column for each demand, limits by type, and so many that are served. A variable for each column."""
    rows: dict[int, dict[int, float]] = {number: {} for number in sizes}
    served: list[dict[int, float]] = [{} for _ in wanted.required]
    used: list[dict[int, float]] = [{} for _ in wanted.capacity]
    for variable, column in enumerate(columns):
        rows[wanted.classes[column.demand]][variable] = 1.0
        if column.is_served:
            served[wanted.groups[column.demand]][variable] = 1.0
        for place, number in enumerate(column.used):
            if number:
                used[place][variable] = float(number)
    for number, terms in rows.items():
        program.constrain(terms, least=sizes[number], most=sizes[number])
    for terms, least_used, most_used in zip(used, wanted.least_used, wanted.capacity, strict=True):
        program.constrain(terms, least=float(least_used), most=float(most_used))
    for terms, least in zip(served, wanted.required, strict=True):
        program.constrain(terms, least=least)
