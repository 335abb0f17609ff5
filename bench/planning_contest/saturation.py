"""llm-d's saturation analyzer by tokens, with its optimizers of variants: by cost, or by score within limits.

The analyzer of each variant is that of the contest of autoscalers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from autoscaling_contest.contestants.wva import SCALE_DOWN, SCALE_UP, Tokens
from planning_contest.model_fleet import ModelFleet
from planning_contest.running import Decision, Key, Setting

__all__ = ["Saturation", "Supply", "by_cost", "by_score", "down"]


class Supply(NamedTuple):
    """A variant of a model."""

    name: str
    cost: float
    capacity: float
    """Tokens of a replica."""
    replicas: int
    """Those that start included."""

    @property
    def per_token(self) -> float:
        return self.cost / self.capacity


class Saturation:
    """Every 30 s, for all models."""

    period_s = 30.0

    def __init__(self, setting: Setting) -> None:
        self.plan_s: list[float] = []
        self._setting = setting
        self._analyzers = {
            (model.name, each.name): Tokens(each.engine)
            for model in setting.models
            for each in setting.variants
        }
        self._due = self.period_s

    def look(self, now: float, fleets: Mapping[str, ModelFleet]) -> Decision | None:
        if now < self._due:
            return None
        self._due = now + self.period_s
        begins = time.process_time()
        replicas: dict[Key, int] = {}
        required: dict[str, float] = {}
        supplies: dict[str, list[Supply]] = {}
        for model, fleet in fleets.items():
            supplies[model], required[model], spare = self._analyzed(model, fleet)
            after = down(supplies[model], spare) if not required[model] else by_name(supplies[model])
            replicas |= {(model, name): number for name, number in after.items()}
        replicas |= self._more(supplies, required)
        self.plan_s.append(time.process_time() - begins)
        return Decision(replicas)

    def _analyzed(self, model: str, fleet: ModelFleet) -> tuple[list[Supply], float, float]:
        """Variants, and the tokens that are required and to spare."""
        supplies, demand, ready = [], 0.0, 0.0
        for variant in self._setting.variants:
            own, analyzer = fleet.fleets[variant.name], self._analyzers[model, variant.name]
            analyzer.learn_sizes(fleet.ledger)
            capacity = analyzer.capacity(own)
            demand += analyzer.demand(own)
            ready += len(own.ready) * capacity
            if capacity:
                supplies.append(Supply(variant.name, variant.cost, capacity, own.current))
        demand += len(fleet.held) * analyzer.tokens_per_request
        expected = sum(each.replicas * each.capacity for each in supplies)
        return supplies, max(0.0, demand / SCALE_UP - expected), max(0.0, ready - demand / SCALE_DOWN)

    def _more(
        self, supplies: Mapping[str, Sequence[Supply]], required: Mapping[str, float]
    ) -> dict[Key, int]:
        if self._setting.capacity is None:
            return {
                (model, name): number
                for model, more in required.items()
                if more
                for name, number in by_cost(supplies[model], more).items()
            }
        left = dict(self._setting.capacity)
        for own in supplies.values():
            for each in own:
                left[each.name] -= each.replicas
        least = max(model.priority for model in self._setting.models)
        weights = {model.name: least + 1 - model.priority for model in self._setting.models}
        return by_score(supplies, required, weights, left)


def by_name(supplies: Sequence[Supply]) -> dict[str, int]:
    return {each.name: each.replicas for each in supplies}


def by_cost(supplies: Sequence[Supply], required: float) -> dict[str, int]:
    """More replicas of the variant that costs least per token; there is no limit that it could reach."""
    found = by_name(supplies)
    if supplies:
        best = min(supplies, key=lambda each: (each.per_token, each.name))
        found[best.name] += math.ceil(required / best.capacity)
    return found


def down(supplies: Sequence[Supply], spare: float) -> dict[str, int]:
    """Fewer replicas of the most expensive variants; the cheapest keeps one if it would be the last."""
    found = by_name(supplies)
    for each in sorted(supplies, key=lambda each: (-each.cost, each.name)):
        least = 1 if sum(found.values()) == found[each.name] else 0
        fewer = min(math.floor(spare / each.capacity), max(0, found[each.name] - least))
        found[each.name] -= fewer
        spare -= fewer * each.capacity
    return found


def by_score(
    supplies: Mapping[str, Sequence[Supply]],
    required: Mapping[str, float],
    weights: Mapping[str, float],
    left: Mapping[str, int],
) -> dict[Key, int]:
    """More replicas for models in turn, the one with the highest score first, until it is down to the mean of
    all. `left` are accelerators by variant. Returns the replicas of variants that get more."""
    left = dict(left)
    missing = {model: more for model, more in required.items() if more > 0}
    found: dict[Key, int] = {}
    while missing:
        scores = {model: weights[model] * more for model, more in missing.items()}
        mean = sum(scores.values()) / len(scores)
        model = max(scores, key=lambda each: scores[each])
        score = scores[model]
        target = score if len(scores) == 1 else score - mean
        if len(scores) > 1 and score <= mean:
            target = score - (mean - score / len(scores))
        best = next(
            (
                each
                for each in sorted(supplies[model], key=lambda each: each.per_token)
                if left[each.name] > 0
            ),
            None,
        )
        number = 0 if best is None else min(math.ceil(target / best.capacity), left[best.name])
        if best is None or not number:
            del missing[model]
            continue
        left[best.name] -= number
        found[model, best.name] = found.get((model, best.name), best.replicas) + number
        missing[model] -= number * best.capacity
        if missing[model] <= 0 or weights[model] * missing[model] > mean:
            del missing[model]
    return found
