"""A linear program that grows: it mixes choices of demands within the accelerators that there are.

The solver keeps its basis between changes, so that the next solution takes a fraction of a millisecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from headgate.planning.search import Array, Flags

__all__ = ["Column", "Mix", "Mixture", "Prices"]

_INFINITE: Final = float("inf")


class Column(NamedTuple):
    """One way to serve a demand, or not to serve it."""

    demand: int
    counts: tuple[int, ...]
    """Replicas of each option."""
    used: tuple[int, ...]
    """Accelerators of each type."""
    cost: float
    is_served: bool


class Prices(NamedTuple):
    """What scarce accelerators are worth."""

    fees: Array
    """Of accelerators by type, at least 0."""
    rewards: Array
    """What one more served demand of each group costs, at least 0."""


class Mix(NamedTuple):
    """An optimal mix."""

    objective: float
    values: Array
    """Share of each column."""
    reduced: Array
    """What a bit more of each column would add to the objective, per share."""
    prices: Prices
    alone: Array
    """The price of each demand."""


class Mixture:
    """Of every demand one column, as shares; of every group a number of served demands; limits by type."""

    def __init__(self, capacity: Sequence[int], groups: Sequence[int], number_of_groups: int) -> None:
        """`groups` has the group of each demand."""
        import highspy

        self.columns: list[Column] = []
        self.used: Array = np.zeros((0, len(capacity)))
        self.demand_of: Array = np.zeros(0)
        self.served: Array = np.zeros(0)
        self._groups = tuple(groups)
        self._types = len(capacity)
        self._number_of_groups = number_of_groups
        self._solver = highspy.Highs()  # type: ignore[no-untyped-call]
        for name, value in (("output_flag", False), ("threads", 1), ("presolve", "off")):
            self._solver.setOptionValue(name, value)
        self._empty = np.zeros(0, np.int32), np.zeros(0)
        for limit in capacity:
            self._row(-_INFINITE, limit)
        for _ in range(number_of_groups):
            self._row(0, _INFINITE)
        for _ in groups:
            self._row(1, 1)

    def _row(self, least: float, most: float) -> None:
        self._solver.addRow(least, most, 0, *self._empty)

    def add(self, columns: Sequence[Column]) -> None:
        """Their part of the objective is 0 until `aim`."""
        if not columns:
            return
        first = self._types + self._number_of_groups
        starts: list[int] = []
        indexes: list[int] = []
        values: list[float] = []
        for column in columns:
            starts.append(len(indexes))
            for kind, number in enumerate(column.used):
                if number:
                    indexes.append(kind)
                    values.append(float(number))
            if column.is_served:
                indexes.append(self._types + self._groups[column.demand])
                values.append(1.0)
            indexes.append(first + column.demand)
            values.append(1.0)
        number = len(columns)
        zeros, ones = np.zeros(number), np.ones(number)
        self._solver.addCols(
            number,
            zeros,
            zeros,
            ones,
            len(indexes),
            np.array(starts, np.int32),
            np.array(indexes, np.int32),
            np.array(values),
        )
        self.columns += columns
        self.used = np.vstack([self.used, np.array([column.used for column in columns], float)])
        self.demand_of = np.append(self.demand_of, [column.demand for column in columns])
        self.served = np.append(self.served, [column.is_served for column in columns])

    @property
    def seconds(self) -> float:
        """That the solver took so far."""
        return float(self._solver.getRunTime())

    def require(self, group: int, number: int) -> None:
        """At least so many demands of the group are served."""
        self._solver.changeRowBounds(self._types + group, float(number), _INFINITE)

    def aim(self, objective: Array) -> None:
        """Minimize this sum of the columns."""
        number = len(self.columns)
        self._solver.changeColsCost(number, np.arange(number, dtype=np.int32), objective)

    def solve(self, allowed: Flags | None = None) -> Mix | None:
        """The best mix of the allowed columns; None if there is none."""
        import highspy

        number = len(self.columns)
        high = np.ones(number) if allowed is None else allowed.astype(float)
        self._solver.changeColsBounds(number, np.arange(number, dtype=np.int32), np.zeros(number), high)
        self._solver.run()
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        found = self._solver.getSolution()
        duals = np.array(found.row_dual)
        first = len(duals) - len(self._groups)
        return Mix(
            objective=self._solver.getInfo().objective_function_value,
            values=np.array(found.col_value),
            reduced=np.array(found.col_dual),
            prices=Prices(np.maximum(-duals[: self._types], 0), np.maximum(duals[self._types : first], 0)),
            alone=duals[first:],
        )
