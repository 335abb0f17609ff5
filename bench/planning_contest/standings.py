"""Whether anybody pays less than ours: for the planned share of requests in time, or for any other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

__all__ = [
    "ALONE",
    "OURS",
    "PLANNED",
    "Comparison",
    "Result",
    "Verdict",
    "comparisons",
    "frontier",
    "shown",
    "summary",
    "verdicts",
]

OURS = "headgate"
ALONE = "alone ("
"""In the names of planners that use one variant, followed by how they plan it."""


PLANNED = 0.95
"""Share of requests that plans are for: who attains less misses the objective."""


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


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Ours with default settings beside one other planner on one trace.

    Costs are comparable where both keep the objective for the planned share of requests.
    """

    trace: str
    planner: str
    attainment: float
    dollars: float
    ours_attainment: float
    ours_dollars: float

    @property
    def is_comparable(self) -> bool:
        """Whether both keep the objective."""
        return min(self.attainment, self.ours_attainment) >= PLANNED

    @property
    def is_dearer(self) -> bool:
        """Whether ours costs more and serves no better, or misses what the other one keeps."""
        if self.ours_attainment < PLANNED <= self.attainment:
            return True
        return self.is_comparable and self.ours_dollars > self.dollars

    @property
    def verdict(self) -> str:
        if self.ours_attainment < PLANNED:
            return "both miss the objective" if self.attainment < PLANNED else "ours misses the objective"
        if self.attainment < PLANNED:
            return "it misses the objective"
        more = self.ours_dollars / self.dollars - 1
        if self.is_dearer:
            return f"dearer by {more:.1%}"
        return "ok, same cost" if not more else f"ok, {-more:.1%} cheaper"


def comparisons(results: Iterable[Result]) -> list[Comparison]:
    """One for each other planner and trace where ours takes part."""
    known = list(results)
    ours = {each.trace: each for each in known if each.planner == OURS}
    return [
        Comparison(
            trace=each.trace,
            planner=each.planner,
            attainment=each.attainment,
            dollars=each.dollars,
            ours_attainment=ours[each.trace].attainment,
            ours_dollars=ours[each.trace].dollars,
        )
        for each in known
        if not _is_ours(each) and each.trace in ours
    ]


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
        groups: dict[str, list[Result]] = {}
        for each in own:
            if not _is_ours(each) or each.planner == OURS:
                groups.setdefault(_kind(each), []).append(each)
        found += [_best(group) for group in groups.values()]
    return found


def _kind(result: Result) -> str:
    """The planner, whichever variant it has."""
    before, alone, after = result.planner.partition(ALONE)
    return alone + after if alone else before


def _best(results: Sequence[Result]) -> Result:
    """The cheapest that keeps the objective, or else the one that attains most."""
    good = [each for each in results if each.attainment >= PLANNED]
    if good:
        return min(good, key=lambda each: each.dollars)
    return max(results, key=lambda each: each.attainment)


def summary(found: Sequence[Comparison]) -> str:
    """One line: where ours is dearer than a planner that keeps the objective as well."""
    both = [each for each in found if each.is_comparable]
    missed = sum(each.attainment < PLANNED for each in found)
    dearer = [each for each in found if each.is_dearer]
    rest = f"of {len(both)} comparisons ({missed} others miss the objective)"
    if not dearer:
        return f"Where both keep the objective, ours is never more expensive: 0 {rest}."
    named = "; ".join(f"{each.planner} on {each.trace}: {each.verdict}" for each in dearer)
    return f"Where both keep the objective, ours is more expensive in {len(dearer)} {rest}: {named}."


def frontier(found: Sequence[Verdict]) -> str:
    """One line: at which attainments another planner costs less than each setting of ours that reaches it."""
    cheaper = [each for each in found if each.is_cheaper]
    settings = "no less than the cheapest setting of ours with the same attainment or more"
    if not cheaper:
        return f"At any attainment, others cost {settings}: {len(found)} results."
    named = "; ".join(f"{each.planner} on {each.trace}" for each in cheaper)
    return f"At any attainment, others cost {settings}, but for {len(cheaper)} of {len(found)}: {named}."
