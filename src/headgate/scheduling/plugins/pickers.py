"""Pickers: from total scores to one endpoint."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from headgate.scheduling.plugins.plugin import Picker


class PickerParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    max_num_of_endpoints: int = 1
    """Ignored: more than one would be a list of fallbacks, but a retry here is a new pick with current
    data."""


class MaxScorePicker(Picker):
    """Picks the highest total; ties are broken at random."""

    kind = "max-score-picker"
    Parameters = PickerParameters

    def pick(self, totals: Sequence[float], rng: random.Random) -> int:
        best = max(totals)
        place = totals.index(best)
        if totals.count(best) == 1:
            return place
        return rng.choice([at for at, total in enumerate(totals) if total == best])


class RandomPicker(Picker):
    """Picks at random, whatever the totals."""

    kind = "random-picker"
    Parameters = PickerParameters

    def pick(self, totals: Sequence[float], rng: random.Random) -> int:
        return rng.randrange(len(totals))


class WeightedRandomPicker(Picker):
    """Picks with a probability in proportion to the total (A-Res: the highest u^(1/w) wins); uniform if all
    are 0."""

    kind = "weighted-random-picker"
    Parameters = PickerParameters

    def pick(self, totals: Sequence[float], rng: random.Random) -> int:
        best, best_key = -1, -1.0
        for place, weight in enumerate(totals):
            if weight > 0.0:
                key = rng.random() ** (1.0 / weight)
                if key > best_key:
                    best, best_key = place, key
        return best if best >= 0 else rng.randrange(len(totals))
