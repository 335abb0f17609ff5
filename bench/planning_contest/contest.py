"""All planners on the traces of the autoscalers: cost and attainment of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from autoscaling_contest import traffic
from planning_contest.hardware import VARIANTS
from planning_contest.model_fleet import Model
from planning_contest.planners import Headgate, Reference, begins_with
from planning_contest.running import Contestant, Outcome, Setting, replay, setting_of
from planning_contest.saturation import Saturation
from planning_contest.standings import ALONE, OURS, Result

__all__ = ["contest", "planners", "shared"]

WINDOW_S: Final = 60.0
TTFT_SCALES: Final = (0.7, 1.4, 2.0)
PERCENTILES: Final = (99.0, 99.9)
SCALES: Final = (4.0, 10.0)
"""Of ours, beside its default, to compare at equal attainment: a fixed window, other targets of TTFT, other
percentiles, and both targets multiplied."""


KNOWING_LIMITS: Final = (OURS, "reference greedy", "v2 saturation")


class _Planner(NamedTuple):
    make: Callable[[Setting], Contestant]
    only: tuple[str, ...] | None = None
    """The variants that it may use."""


def planners() -> Mapping[str, _Planner]:
    names = [each.name for each in VARIANTS]
    return {
        OURS: _Planner(Headgate),
        f"{OURS} 60 s": _Planner(partial(Headgate, window_s=WINDOW_S)),
        **{
            f"{OURS} 60 s TTFT x{each:g}": _Planner(partial(Headgate, window_s=WINDOW_S, ttft_scale=each))
            for each in TTFT_SCALES
        },
        **{f"{OURS} {each:g}%": _Planner(partial(Headgate, percentile=each)) for each in PERCENTILES},
        **{
            f"{OURS} 60 s x{each:g}": _Planner(
                partial(Headgate, window_s=WINDOW_S, ttft_scale=each, tpot_scale=each)
            )
            for each in SCALES
        },
        **{f"{each} {ALONE}planned)": _Planner(partial(Headgate, only=(each,)), (each,)) for each in names},
        "reference": _Planner(Reference),
        "reference greedy": _Planner(partial(Reference, is_greedy=True)),
        **{
            f"{each} {ALONE}reference)": _Planner(partial(Reference, only=(each,)), (each,)) for each in names
        },
        "v2 saturation": _Planner(Saturation),
    }


def contest(
    folder: Path, case: tuple[str, float], names: Sequence[str], cold_start_s: float, limit_s: float
) -> list[Result]:
    """All results on one trace. Raises OSError or TraceError."""
    trace = traffic.read(folder, *case, limit_s=limit_s)
    model = Model(trace.name, trace.works, trace.slo)
    return list(_results(setting_of([model], VARIANTS, cold_start_s), names))


def shared(
    folder: Path,
    cases: Sequence[tuple[str, float]],
    capacity: Mapping[str, int],
    cold_start_s: float,
    limit_s: float,
) -> list[Result]:
    """Models with a trace each share accelerators; the first one is the most important. Only planners that
    know limits take part. Raises OSError or TraceError."""
    traces = [traffic.read(folder, *case, limit_s=limit_s) for case in cases]
    models = [
        Model(f"{trace.name}, priority {number}", trace.works, trace.slo, number)
        for number, trace in enumerate(traces, 1)
    ]
    return list(_results(setting_of(models, VARIANTS, cold_start_s, capacity), KNOWING_LIMITS))


def _results(setting: Setting, names: Sequence[str]) -> Iterator[Result]:
    for name, planner in planners().items():
        if name in names:
            contestant = planner.make(setting)
            outcomes, _ = replay(setting, contestant, begins_with(setting, planner.only))
            for model, outcome in outcomes.items():
                yield _result(model, name, outcome, contestant.plan_s)


def _result(trace: str, planner: str, outcome: Outcome, plan_s: Sequence[float]) -> Result:
    score = outcome.score
    return Result(
        trace=trace,
        planner=planner,
        attainment=round(score.attainment, 5),
        ttft_attainment=round(score.ttft_attainment, 5),
        tpot_attainment=round(score.tpot_attainment, 5),
        dollars=round(outcome.dollars, 3),
        reversals=outcome.reversals,
        worst_minute=round(score.worst_minute, 3),
        plans=len(plan_s),
        plan_ms=round(1000 * sum(plan_s) / len(plan_s), 2) if plan_s else 0.0,
    )
