"""All demands served whole within the capacity, at the least cost: exact, by column generation.

A column is one way to serve one demand. A linear program mixes columns within the capacity, and its prices of
accelerators tell which other columns would help, until none does. Its value is a bound that is almost always
within a thousandth of the best plan. Only columns whose reduced cost is within the remaining gap can be part
of a better plan, so a last integer program over all of those is exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from headgate.planning import covering
from headgate.planning.demand_model import Counts, price
from headgate.planning.milp import Outcome, Program
from headgate.planning.problem import Demand

__all__ = ["Best", "best_within"]

_ROUNDS: Final = 100
_EQUAL: Final = 1e-9
_SHARES: Final = (0.1, 0.5, 1)
"""Parts of the gap that columns are added for: a better plan makes the gap smaller before all are."""
_MOST: Final = 2000
"""Columns of one demand in the last program."""
_SHORT: Final = 1e3
"""Price of an accelerator that is not there, compared with the dearest column."""


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
    """The best plan, from a choice for each demand; None if none serves all, or for demands with minimums."""
    if switching >= 1:
        return None
    pool = _Pool(demands, capacity, switching)
    for index, counts in enumerate(start):
        pool.add(index, counts)
    bound = pool.priced(limit_s)
    if bound is None:
        return None
    chosen = pool.chosen(limit_s - pool.seconds)
    if chosen is None:
        return None
    counts, cost = chosen
    for share in _SHARES:
        if cost - bound.total <= _EQUAL * cost:
            return Best(counts, cost, True, pool.seconds)
        if not pool.add_within(bound, share * (cost - bound.total)):
            break
        chosen = pool.chosen(limit_s - pool.seconds)
        if chosen is None:
            break
        is_all = share == 1 and pool.is_optimal
        if chosen[1] <= cost:
            counts, cost = chosen
        if is_all:
            return Best(counts, cost, True, pool.seconds)
    return Best(counts, bound.total, False, pool.seconds)


class _Bound(NamedTuple):
    total: float
    alone: list[float]
    """The least reduced cost of each demand."""
    fees: dict[str, float]
    """Prices of accelerators by type."""


class _Pool:
    """Columns of all demands."""

    def __init__(self, demands: Sequence[Demand], capacity: Mapping[str, int], switching: float) -> None:
        self.seconds = 0.0
        self.is_optimal = False
        self._demands = demands
        self._switching = switching
        self._columns: list[dict[Counts, float]] = [{} for _ in demands]
        types = {option.type for demand in demands for option in demand.options}
        self._capacity = {kind: capacity.get(kind, 0) for kind in sorted(types)}

    def add(self, index: int, counts: Counts) -> bool:
        """Whether it is new."""
        if counts in self._columns[index]:
            return False
        options = self._demands[index].options
        self._columns[index][counts] = sum(
            price(option, n, self._switching) for option, n in zip(options, counts, strict=True)
        )
        return True

    def priced(self, limit_s: float) -> _Bound | None:
        """Add columns until none improves the mix; None if time runs out or accelerators are too few."""
        best: _Bound | None = None
        for _ in range(_ROUNDS):
            program, _, rows, objective = self._program(is_soft=True)
            relaxed = program.relaxed(objective, limit_s - self.seconds)
            if relaxed is None:
                return None
            self.seconds += relaxed.seconds
            fees = {kind: max(0.0, -relaxed.duals[row]) for kind, row in rows.items()}
            bound, is_new = self._round(fees)
            if bound is None:
                return None
            best = bound if best is None or bound.total > best.total else best
            if not is_new or relaxed.objective - best.total <= _EQUAL * relaxed.objective:
                is_short = any(value > _EQUAL for value in relaxed.values[len(relaxed.values) - len(rows) :])
                return None if is_short else best
        return best

    def _round(self, fees: Mapping[str, float]) -> tuple[_Bound | None, bool]:
        alone: list[float] = []
        is_new = False
        for index, demand in enumerate(self._demands):
            own = [fees[option.type] * option.units for option in demand.options]
            found = covering.cheapest(demand, self._switching, own)
            if found is None:
                return None, False
            self.seconds += found.nodes * covering.NODE_S
            alone.append(found.price)
            is_new = self.add(index, found.counts) or is_new
        total = sum(alone) - sum(fees[kind] * number for kind, number in self._capacity.items())
        return _Bound(total, alone, dict(fees)), is_new

    def add_within(self, bound: _Bound, gap: float) -> bool:
        """Add all columns that a better plan could have; False if they are too many."""
        for index, demand in enumerate(self._demands):
            own = [bound.fees[option.type] * option.units for option in demand.options]
            limit = bound.alone[index] + gap
            found = covering.within(demand, self._switching, own, limit, _MOST)
            if found is None:
                return False
            for counts in found:
                self.add(index, counts)
        return True

    def chosen(self, limit_s: float) -> tuple[Counts, float] | None:
        """The best choice of one column for each demand, with its cost."""
        program, columns, _, objective = self._program(is_soft=False)
        outcome: Outcome = program.minimize(objective, limit_s)
        self.seconds += outcome.seconds
        self.is_optimal = outcome.is_optimal
        if outcome.values is None:
            return None
        picked = [counts for counts, variable in columns if outcome.values[variable] > 0.5]
        return tuple(itertools.chain.from_iterable(picked)), outcome.objective

    def _program(
        self, *, is_soft: bool
    ) -> tuple[Program, list[tuple[Counts, int]], dict[str, int], dict[int, float]]:
        """The program, its columns with their variables, the constraints of types, and the objective.

        If it is soft, there is a variable for missing accelerators of each type, after all others.
        """
        program = Program()
        objective: dict[int, float] = {}
        columns: list[tuple[Counts, int]] = []
        used: dict[str, dict[int, float]] = {kind: {} for kind in self._capacity}
        for demand, own in zip(self._demands, self._columns, strict=True):
            variables: dict[int, float] = {}
            for counts, cost in own.items():
                variable = program.variable(0, 1, whole=True)
                columns.append((counts, variable))
                variables[variable], objective[variable] = 1.0, cost
                for n, option in zip(counts, demand.options, strict=True):
                    if n:
                        terms = used[option.type]
                        terms[variable] = terms.get(variable, 0.0) + n * option.units
            program.constrain(variables, least=1, most=1)
        rows: dict[str, int] = {}
        dearest = max(objective.values(), default=1.0)
        for kind, terms in used.items():
            if is_soft:
                missing = program.variable()
                terms[missing], objective[missing] = -1.0, _SHORT * dearest
            rows[kind] = program.constrain(terms, most=self._capacity[kind])
        return program, columns, rows, objective
