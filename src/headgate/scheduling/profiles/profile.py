"""One composition of plugins, and how it picks an endpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headgate.fleet import EndpointState
from headgate.scheduling.plugins import Cycle, Filter, Loads, Picker, Plugin, Scorer
from headgate.scheduling.plugins.pickers import MaxScorePicker


class Profile:
    """Ordered filters, weighted scorers, and a picker."""

    def __init__(
        self,
        name: str = "default",
        filters: Sequence[Filter] = (),
        scorers: Sequence[tuple[Scorer, float]] = (),
        picker: Picker | None = None,
    ) -> None:
        self.name = name
        self.filters = tuple(filters)
        self.scorers = tuple(scorers)
        self.picker = picker or MaxScorePicker()

    def plugins(self) -> Iterator[Plugin]:
        """Each plugin once."""
        seen: set[int] = set()
        for plugin in (*self.filters, *(scorer for scorer, _ in self.scorers), self.picker):
            if id(plugin) not in seen:
                seen.add(id(plugin))
                yield plugin

    def pick(self, cycle: Cycle, candidates: Loads) -> EndpointState | None:
        """One of the candidates, of which there is at least one; None if the filters leave none."""
        for each in self.filters:
            candidates = each.keep(cycle, candidates)
            if not candidates:
                return None
        if len(candidates) == 1:
            return candidates[0]
        return candidates[self.picker.pick(self.totals(cycle, candidates), cycle.rng)]

    def totals(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        """For each endpoint the sum of weight x score; 0 without scorers."""
        totals: Sequence[float] | None = None
        for scorer, weight in self.scorers:
            scores = scorer.scores(cycle, loads)
            if totals is None:
                totals = [weight * score for score in scores]
            else:
                totals = [total + weight * score for total, score in zip(totals, scores, strict=True)]
        return totals if totals is not None else [0.0] * len(loads)

    def leaves_none(self, cycle: Cycle, candidates: Loads) -> Filter | None:
        """The filter that leaves none of the candidates; None if some are left."""
        for each in self.filters:
            candidates = each.keep(cycle, candidates)
            if not candidates:
                return each
        return None

    def reasons(self, cycle: Cycle, candidates: Loads) -> dict[EndpointState, str]:
        """What the plugins say about each candidate, in words."""
        said: dict[EndpointState, str] = {}
        for each in self.filters:
            kept = each.keep(cycle, candidates)
            said |= {load: f"left out by {each.name}" for load in candidates if load not in kept}
            candidates = kept
            if not candidates:
                return said
        scored = [(scorer, weight, scorer.scores(cycle, candidates)) for scorer, weight in self.scorers]
        for place, load in enumerate(candidates):
            parts = [f"{scorer.name} {scores[place]:.4g} x {weight:g}" for scorer, weight, scores in scored]
            total = sum(weight * scores[place] for _, weight, scores in scored)
            said[load] = f"{total:.4g} = {' + '.join(parts)}" if parts else "no scorer tells them apart"
        return said
