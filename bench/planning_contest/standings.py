"""Whether anybody pays less than ours at equal attainment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

__all__ = ["ALONE", "OURS", "Result", "Verdict", "shown", "summary", "verdicts"]

OURS = "headgate"
ALONE = "alone ("
"""In the names of planners that use one variant, followed by how they plan it."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One contestant with one model."""

    trace: str
    planner: str
    attainment: float
    """Share of requests with TTFT and TPOT in time."""
    ttft_attainment: float
    tpot_attainment: float
    dollars: float
    reversals: int
    """Changes of direction of wanted replicas, over all variants."""
    worst_minute: float
    """The least attainment of the requests of one minute."""
    plans: int
    plan_ms: float
    """Mean CPU time of a plan."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Ours beside one other planner on one trace."""

    trace: str
    planner: str
    attainment: float
    dollars: float
    ours: str
    """The cheapest of ours with at least this attainment; "" if there is none."""
    ours_dollars: float | None

    @property
    def is_cheaper(self) -> bool:
        """Whether the other one is."""
        return self.ours_dollars is None or self.ours_dollars > self.dollars


def verdicts(results: Iterable[Result]) -> list[Verdict]:
    """One for each planner and trace. Ours has several results: for its default, and for other settings."""
    by_trace: dict[str, list[Result]] = {}
    for each in results:
        by_trace.setdefault(each.trace, []).append(each)
    return [
        _verdict(other, [each for each in own if _is_ours(each)])
        for own in by_trace.values()
        if any(_is_ours(each) for each in own)
        for other in own
        if not _is_ours(other)
    ]


def _is_ours(result: Result) -> bool:
    return result.planner.split()[0] == OURS


def _verdict(other: Result, ours: Sequence[Result]) -> Verdict:
    good = [each for each in ours if each.attainment >= other.attainment]
    best = min(good, key=lambda each: each.dollars, default=None)
    return Verdict(
        trace=other.trace,
        planner=other.planner,
        attainment=other.attainment,
        dollars=other.dollars,
        ours="" if best is None else best.planner,
        ours_dollars=None if best is None else best.dollars,
    )


def shown(results: Sequence[Result]) -> list[Result]:
    """Those of the table: of planners with one variant the best, and ours for its default alone."""
    found: list[Result] = []
    for trace in dict.fromkeys(each.trace for each in results):
        own = [each for each in results if each.trace == trace]
        reached = next((each.attainment for each in own if each.planner == OURS), 1.0)
        groups: dict[str, list[Result]] = {}
        for each in own:
            if not _is_ours(each) or each.planner == OURS:
                groups.setdefault(_kind(each), []).append(each)
        found += [_best(group, reached) for group in groups.values()]
    return found


def _kind(result: Result) -> str:
    """The planner, whichever variant it has."""
    before, alone, after = result.planner.partition(ALONE)
    return alone + after if alone else before


def _best(results: Sequence[Result], reached: float) -> Result:
    """The cheapest that attains as much, or else the one that attains most."""
    good = [each for each in results if each.attainment >= reached]
    if good:
        return min(good, key=lambda each: each.dollars)
    return max(results, key=lambda each: each.attainment)


def summary(found: Sequence[Verdict]) -> str:
    """One line."""
    worse = [each for each in found if each.is_cheaper]
    many = f"{len(found)} comparison{'s' if len(found) > 1 else ''}"
    if not worse:
        return f"At equal attainment, ours is never more expensive: {many}."
    named = "; ".join(f"{each.planner} on {each.trace}" for each in worse)
    return f"At equal attainment, ours is more expensive in {len(worse)} of {many}: {named}."
