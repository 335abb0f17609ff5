"""Merges successive readings of one engine.

Turns counters into means over an interval, tells a restart from an idle hour, and keeps the last reading with
its age when a scrape fails.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final, Literal, TypeAlias

import msgspec

from headgate.engines import Figures, Total
from headgate.fleet.reading import EngineReading

INTERVAL_S: Final = 1.0
"""Shortest interval for means: a shorter one holds too few tokens."""
START_TOLERANCE_S: Final = 1.0

ReadingState: TypeAlias = Literal["fresh", "stale", "missing", "unsupported"]
"""`missing`: nothing was ever read; `unsupported`: it responds, but has no page of a known engine."""


class IntervalMean:
    """Mean of a histogram's samples since the last interval, if there were any."""

    __slots__ = ("_at", "_before", "mean_at", "mean_s", "samples", "since")

    def __init__(self) -> None:
        self._before: Total | None = None
        self._at = 0.0
        self.mean_s: float | None = None
        self.mean_at: float | None = None
        """When the interval of the mean ended. An interval without samples changes nothing."""
        self.since: float | None = None
        """When that interval began."""
        self.samples = 0
        """Samples in that interval."""

    def has_decreased(self, total: Total | None) -> bool:
        """Whether the total is lower than before, which only a restart causes."""
        before = self._before
        if before is None or total is None:
            return False
        return total.samples < before.samples or total.sum_s < before.sum_s

    def count_from_zero(self, at: float) -> None:
        """Make counters count from 0, as the engine has restarted."""
        if self._before is not None:
            self._before, self._at = Total(0.0, 0.0), at - INTERVAL_S

    def add(self, total: Total | None, at: float) -> None:
        """Add the histogram's total at `at`; None if the page lacks it."""
        if total is None:
            return
        if self._before is None:
            self._before, self._at = total, at
            return
        if at - self._at < INTERVAL_S:
            return
        count = total.samples - self._before.samples
        if count >= 1:  # samples are whole: less than one gives no meaningful mean
            self.mean_s = max(total.sum_s - self._before.sum_s, 0.0) / count
            self.since, self.mean_at, self.samples = self._at, at, round(count)
        self._before, self._at = total, at


class Observation:
    """Observations of one engine. Times are in monotonic seconds."""

    __slots__ = ("_adapters", "_has_page", "_models", "_started_at", "_tpot", "_ttft", "reading", "restarts")

    def __init__(self) -> None:
        self.reading: EngineReading | None = None
        """The last reading, however old."""
        self.restarts = 0
        """Restarts of the engine that were noticed."""
        self._models: frozenset[str] | None = None
        self._adapters: frozenset[str] = frozenset()
        self._ttft = IntervalMean()
        self._tpot = IntervalMean()
        self._started_at: float | None = None
        self._has_page: bool | None = None
        """None until it is known whether the engine has a page."""

    def see(self, figures: Figures, at: float) -> bool:
        """Apply a page requested at `at`; returns whether the engine has restarted since the last, which
        empties its cache."""
        restarted = self._has_restarted(figures)
        if restarted:
            self.restarts += 1
            self._models, self._adapters = None, frozenset()
            self._ttft.count_from_zero(at)
            self._tpot.count_from_zero(at)
        self._started_at = figures.started_at or self._started_at
        self._ttft.add(figures.ttft, at)
        self._tpot.add(figures.tpot, at)
        self._has_page = True
        self.reading = EngineReading(
            at=at,
            waiting=figures.waiting,
            running=figures.running,
            kv_usage=figures.kv_usage,
            block_tokens=figures.block_tokens,
            blocks=figures.blocks,
            ttft_s=self._ttft.mean_s,
            ttft_at=self._ttft.mean_at,
            ttft_since=self._ttft.since,
            first_tokens=self._ttft.samples if figures.ttft_is_of_all else None,
            tpot_s=self._tpot.mean_s,
            tpot_at=self._tpot.mean_at,
            adapters_running=figures.adapters_running,
            adapters_waiting=figures.adapters_waiting,
            max_adapters=figures.max_adapters,
            models=self._models,
            adapters_listed=self._adapters,
        )
        return restarted

    def see_no_page(self, at: float) -> None:
        """Record that the engine has no page, or not that of a known engine: earlier pages no longer
        count."""
        if self._has_page is not False:
            self._has_page = False
            self.reading = self._of_list(at) if self._models is not None else None

    def list_models(self, models: Set[str], at: float, adapters: Set[str] = frozenset()) -> None:
        """Apply the list of models at `at`, and those of them that are adapters."""
        self._models, self._adapters = frozenset(models), frozenset(adapters)
        if self._has_page and self.reading is not None:
            self.reading = msgspec.structs.replace(
                self.reading, models=self._models, adapters_listed=self._adapters
            )
        elif self._has_page is False:
            self.reading = self._of_list(at)

    def _of_list(self, at: float) -> EngineReading:
        """A reading of an engine that has only a list of models."""
        return EngineReading(at=at, models=self._models, adapters_listed=self._adapters)

    def state(self, now: float, stale_s: float) -> ReadingState:
        """State of its page: stale once it is older than `stale_s`."""
        if self._has_page is False:
            return "unsupported"
        if self.reading is None or self._has_page is None:
            return "missing"
        return "fresh" if now - self.reading.at <= stale_s else "stale"

    def _has_restarted(self, figures: Figures) -> bool:
        started_at, before = figures.started_at, self._started_at
        if started_at is not None and before is not None and abs(started_at - before) > START_TOLERANCE_S:
            return True
        return self._ttft.has_decreased(figures.ttft) or self._tpot.has_decreased(figures.tpot)
