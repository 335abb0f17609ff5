"""Mixed-integer programs, solved by HiGHS.

The library is imported when the first program is solved: most processes never plan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import highspy

__all__ = ["Outcome", "Program", "Relaxed"]

_ABSOLUTE_GAP: Final = 1e-6
_NEAR: Final[dict[str, bool | int | float]] = {
    "mip_allow_cut_separation_at_nodes": False,
    "mip_allow_restart": False,
    "mip_detect_symmetry": False,
    "mip_heuristic_effort": 0.0,
    "mip_heuristic_run_feasibility_jump": False,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_root_reduced_cost": False,
    "mip_heuristic_run_zi_round": False,
    "mip_pscost_minreliable": 2,
}
"""For programs of few nodes: most of the time, branches are tried beforehand, and cuts below the root."""
_LEAST_S: Final = 1e-3
"""A limit of 0 s would be none."""


class Outcome(NamedTuple):
    """Of one run."""

    values: tuple[float, ...] | None
    """One for each variable; None: no solution was found within the time."""
    objective: float
    bound: float
    """No solution is better than this."""
    is_optimal: bool
    seconds: float
    """That the solver took."""
    iterations: int
    """Of the simplex method: the work that it was, whatever else the machine did meanwhile."""


class Relaxed(NamedTuple):
    """Of a linear program."""

    objective: float
    values: tuple[float, ...]
    duals: tuple[float, ...]
    """What one unit more of each bound would save, as a negative number."""
    seconds: float


class Program:
    """Variables and linear constraints. Grows only; each `minimize` has its own objective."""

    def __init__(self) -> None:
        self._low: list[float] = []
        self._high: list[float] = []
        self._whole: list[bool] = []
        self._rows: list[tuple[float, float, dict[int, float]]] = []

    @property
    def size(self) -> int:
        """Number of variables."""
        return len(self._low)

    def variable(self, low: float = 0.0, high: float = math.inf, *, whole: bool = False) -> int:
        """Add a variable; returns its index."""
        self._low.append(low)
        self._high.append(high)
        self._whole.append(whole)
        return len(self._low) - 1

    def constrain(
        self, terms: Mapping[int, float], *, least: float = -math.inf, most: float = math.inf
    ) -> int:
        """Bound a sum of variables times factors; returns the index of the constraint."""
        self._rows.append((least, most, dict(terms)))
        return len(self._rows) - 1

    def relaxed(self, objective: Mapping[int, float], limit_s: float) -> Relaxed | None:
        """Minimize with fractions of whole variables; None: not solved within the time."""
        import highspy

        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        for name, value in self._options(limit_s).items():
            solver.setOptionValue(name, value)
        model = self._model(objective, {})
        model.integrality_ = []
        solver.passModel(model)
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        found = solver.getSolution()
        value = solver.getInfo().objective_function_value
        return Relaxed(value, tuple(found.col_value), tuple(found.row_dual), solver.getRunTime())

    def minimize(
        self,
        objective: Mapping[int, float],
        limit_s: float,
        *,
        start: Sequence[float] | None = None,
        raised: Mapping[int, float] | None = None,
        cutoff: float = math.inf,
        is_near: bool = False,
    ) -> Outcome:
        """Find the least value of the objective, with the lower bounds of `raised` for this run.

        With a feasible `start`, there always is a solution. Above `cutoff`, none is looked for. `is_near`:
        solutions are near the relaxed one, so that heuristics are of no use.
        """
        import highspy

        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        for name, value in (self._options(limit_s) | (_NEAR if is_near else {})).items():
            solver.setOptionValue(name, value)
        if cutoff < math.inf:
            solver.setOptionValue("objective_bound", cutoff)
        solver.passModel(self._model(objective, raised or {}))
        if start is not None:
            given = highspy.HighsSolution()
            given.col_value = list(start)
            solver.setSolution(given)
        solver.run()
        info = solver.getInfo()
        is_optimal = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        seconds = solver.getRunTime()
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return Outcome(None, math.inf, -math.inf, False, seconds, info.simplex_iteration_count)
        found = tuple(solver.getSolution().col_value)
        value = info.objective_function_value
        bound = value if is_optimal else info.mip_dual_bound if any(self._whole) else -math.inf
        return Outcome(found, value, bound, is_optimal, seconds, info.simplex_iteration_count)

    def _options(self, limit_s: float) -> dict[str, bool | int | float]:
        return {
            "output_flag": False,
            "threads": 1,
            "time_limit": max(limit_s, _LEAST_S),
            "mip_rel_gap": 0.0,
            "mip_abs_gap": _ABSOLUTE_GAP,
        }

    def _model(self, objective: Mapping[int, float], raised: Mapping[int, float]) -> highspy.HighsLp:
        import highspy

        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(self._low), len(self._rows)
        costs = np.zeros(len(self._low))
        for index, factor in objective.items():
            costs[index] = factor
        model.col_cost_ = costs
        model.col_lower_ = np.array([raised.get(index, low) for index, low in enumerate(self._low)])
        model.col_upper_ = np.array(self._high)
        model.row_lower_ = np.array([least for least, _, _ in self._rows], float)
        model.row_upper_ = np.array([most for _, most, _ in self._rows], float)
        kinds = highspy.HighsVarType
        model.integrality_ = [kinds.kInteger if whole else kinds.kContinuous for whole in self._whole]
        matrix = model.a_matrix_
        matrix.format_ = highspy.MatrixFormat.kRowwise
        matrix.start_ = np.cumsum([0, *(len(terms) for _, _, terms in self._rows)], dtype=np.int32)
        matrix.index_ = np.array([each for _, _, terms in self._rows for each in terms], np.int32)
        matrix.value_ = np.array([each for _, _, terms in self._rows for each in terms.values()], float)
        return model
