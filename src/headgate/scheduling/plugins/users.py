"""Scorers from other packages: classes that an installed distribution names in its entry points.

Their code is not trusted: scores are clamped, and an exception does not fail the request.
"""

from __future__ import annotations

import importlib.metadata
import logging
from collections.abc import Sequence

import msgspec

from headgate.scheduling.plugins.plugin import Cycle, Loads, Scorer

log = logging.getLogger(__name__)

GROUP = "headgate.scorers"
"""Entry points of this group map a plugin type to its class."""


class UnusableError(Exception):
    """The class of a plugin type cannot be used; the message says why."""


def names() -> list[str]:
    """The types of all installed scorers."""
    return sorted({point.name for point in importlib.metadata.entry_points(group=GROUP)})


def find(name: str) -> type[Scorer] | None:
    """The class of this type; None if no distribution has one. Raises UnusableError."""
    points = list(importlib.metadata.entry_points(group=GROUP, name=name))
    if not points:
        return None
    where = " and ".join(sorted(point.value for point in points))
    if len({point.value for point in points}) > 1:
        raise UnusableError(f"{name} is {where}: uninstall one of them")
    try:
        found = points[0].load()
    except Exception as error:
        raise UnusableError(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(found, type) or not issubclass(found, Scorer):
        raise UnusableError(f"{where} must be a subclass of headgate.scheduling.plugins.Scorer")
    if not issubclass(found.Parameters, msgspec.Struct):
        raise UnusableError(f"the Parameters of {where} must be a msgspec.Struct")
    return found


class Guarded(Scorer):
    """Wraps such a scorer: clamps scores to 0 and 1, and counts NaN, and all scores if it raises, as 0."""

    def __init__(self, scorer: Scorer) -> None:
        super().__init__()
        self._scorer = scorer
        self.failures = 0
        self.uses_prefix = scorer.uses_prefix

    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        try:
            found = [float(score) for score in self._scorer.scores(cycle, loads)]
            if len(found) != len(loads):
                raise ValueError(f"{len(found)} scores for {len(loads)} endpoints")
        except Exception:
            self._failed()
            return [0.0] * len(loads)
        # Comparisons with NaN are false.
        return [(1.0 if score > 1.0 else score) if score > 0.0 else 0.0 for score in found]

    def _failed(self) -> None:
        self.failures += 1
        if self.failures == 1:
            log.exception("scorer %s failed; its scores count as 0 whenever it fails", self.name)
