"""Who is better than ours in both attainment and GPU hours, and how far ours is from the bound."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec

OURS = "headgate"
CLAIRVOYANT = "clairvoyant"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One autoscaler on one trace with one cold start."""

    trace: str
    cold_start_s: float
    autoscaler: str
    attainment: float
    """Share of requests with TTFT and TPOT in time."""
    ttft_attainment: float
    tpot_attainment: float
    gpu_hours: float
    reversals: int
    """Changes of direction of the wanted replicas."""
    worst_minute: float
    """The least attainment of the requests of one minute."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Ours on one trace with one cold start."""

    trace: str
    cold_start_s: float
    attainment: float
    gpu_hours: float
    of_bound: float | None
    """GPU hours over those of the clairvoyant bound at equal attainment; None without one."""
    better: list[str]
    """Published autoscalers with better attainment and fewer GPU hours."""


def standings(results: Sequence[Result]) -> list[Standing]:
    """One for each trace and cold start in which ours took part."""
    found = []
    by_cell: dict[tuple[str, float], list[Result]] = {}
    for each in results:
        by_cell.setdefault((each.trace, each.cold_start_s), []).append(each)
    for (trace, cold_start_s), cell in by_cell.items():
        own = next((each for each in cell if each.autoscaler == OURS), None)
        if own is None:
            continue
        bounds = [each for each in cell if each.autoscaler.startswith(CLAIRVOYANT)]
        bound = hours_at(own.attainment, bounds)
        found.append(
            Standing(
                trace=trace,
                cold_start_s=cold_start_s,
                attainment=own.attainment,
                gpu_hours=own.gpu_hours,
                of_bound=round(own.gpu_hours / bound, 3) if bound else None,
                better=[
                    each.autoscaler
                    for each in cell
                    if each is not own
                    and each not in bounds
                    and each.attainment >= own.attainment
                    and each.gpu_hours <= own.gpu_hours
                ],
            )
        )
    return found


def hours_at(attainment: float, bounds: Sequence[Result]) -> float | None:
    """GPU hours of the bound at an attainment: between two plans linear, beyond all of them the nearest's."""
    line = sorted((each.attainment, each.gpu_hours) for each in bounds)
    if not line:
        return None
    if attainment <= line[0][0]:
        return line[0][1]
    for (low, low_hours), (high, high_hours) in itertools.pairwise(line):
        if low <= attainment <= high:
            share = (attainment - low) / (high - low) if high > low else 0.0
            return low_hours + (high_hours - low_hours) * share
    return line[-1][1]
