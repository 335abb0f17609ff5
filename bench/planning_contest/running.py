"""Replays the requests of models with a contestant that decides about the replicas of all their variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from headgate.planning.system import Performance
from headgate.simulator.autoscaling import Replay, Score, reversals, score
from planning_contest.hardware import Variant, performance
from planning_contest.model_fleet import Model, ModelFleet

__all__ = ["Contestant", "Decision", "Key", "Outcome", "Setting", "replay", "setting_of"]

TICK_S = 1.0
WARM_UP_S, WARM_UP_SHARE = 300.0, 0.1
"""What a planner makes of the replicas that it finds at the beginning does not count: neither requests nor
replicas of this time, or of this share of the trace if that is shorter."""
LONGEST_TAIL_S = 3600.0
"""How long after the last arrival requests may still be served."""

Key = tuple[str, str]
"""Model and variant."""


class Setting(NamedTuple):
    """What contestants are told, and what there is."""

    models: Sequence[Model]
    variants: Sequence[Variant]
    performance: Mapping[Key, Performance]
    cold_start_s: float
    capacity: Mapping[str, int] | None = None
    """Accelerators by variant; None: there are always enough."""


class Decision(NamedTuple):
    """Replicas by model and variant; what is left out keeps its own."""

    replicas: Mapping[Key, int]
    weights: Mapping[Key, float] = {}
    """Of one replica in routing; without any, requests go to the least loaded replica."""


class Contestant(Protocol):
    """Called at 0 and every second."""

    plan_s: list[float]
    """CPU time of each plan."""

    def look(self, now: float, fleets: Mapping[str, ModelFleet]) -> Decision | None:
        """None: the last decision stays. Fleets are up to date, and may be read only."""
        ...


class Outcome(NamedTuple):
    """Of one model."""

    score: Score
    dollars: float
    reversals: int
    """Of all its variants."""


def setting_of(
    models: Sequence[Model],
    variants: Sequence[Variant],
    cold_start_s: float,
    capacity: Mapping[str, int] | None = None,
) -> Setting:
    known = {
        (model.name, variant.name): performance(model.name, variant, model.works)
        for model in models
        for variant in variants
    }
    return Setting(models, variants, known, cold_start_s, capacity)


def replay(
    setting: Setting, contestant: Contestant, begins_with: Mapping[Key, int]
) -> tuple[dict[str, Outcome], dict[str, ModelFleet]]:
    """The outcome of each model, and its fleet at the end."""
    fleets = {
        model.name: ModelFleet(
            model,
            setting.variants,
            setting.cold_start_s,
            {variant: number for (name, variant), number in begins_with.items() if name == model.name},
        )
        for model in setting.models
    }
    wanted = {(name, variant): n for name, each in fleets.items() for variant, n in each.current.items()}
    counts: dict[Key, list[int]] = {key: [] for key in wanted}
    sent = dict.fromkeys(fleets, 0)
    ends_s = max(model.works[-1].at_s for model in setting.models)
    begins_s = min(WARM_UP_S, WARM_UP_SHARE * ends_s)
    paid = dict.fromkeys(fleets, 0.0)
    tick = 0
    while tick * TICK_S <= ends_s:
        now = tick * TICK_S
        for each in fleets.values():
            each.advance(now)
            each.traffic.sweep(now)
        if now <= begins_s:
            paid = {name: each.dollars for name, each in fleets.items()}
        decision = contestant.look(now, fleets)
        if decision is not None:
            wanted.update(decision.replicas)
            _route(fleets, decision.weights)
        _scale(setting, fleets, wanted)
        for key, number in wanted.items() if now >= begins_s else ():
            counts[key].append(number)
        tick += 1
        for each in fleets.values():
            sent[each.model.name] = _arrive(each, sent[each.model.name], tick * TICK_S)
    dollars = {name: each.dollars - paid[name] for name, each in fleets.items()}
    for each in fleets.values():
        _serve_the_rest(each, tick * TICK_S)
    return {name: _outcome(each, begins_s, dollars[name], counts) for name, each in fleets.items()}, fleets


def _route(fleets: Mapping[str, ModelFleet], weights: Mapping[Key, float]) -> None:
    for name, each in fleets.items():
        each.weights = {variant: weight for (model, variant), weight in weights.items() if model == name}


def _scale(setting: Setting, fleets: Mapping[str, ModelFleet], wanted: Mapping[Key, int]) -> None:
    """Stop replicas, and start those that there are accelerators for; the others are pending."""
    for (model, variant), number in wanted.items():
        own = fleets[model].fleets[variant]
        if number < own.current:
            own.scale(number)
    for kind in [each.name for each in setting.variants]:
        left = None
        if setting.capacity is not None:
            used = sum(
                each.fleets[kind].current + len(each.fleets[kind].draining) for each in fleets.values()
            )
            left = setting.capacity.get(kind, 0) - used
        for model in sorted(setting.models, key=lambda each: each.priority):
            own, number = fleets[model.name].fleets[kind], wanted[model.name, kind]
            more = max(0, number - own.current)
            if left is not None:
                more = max(0, min(more, left))
                left -= more
            if more:
                own.scale(own.current + more)


def _arrive(fleet: ModelFleet, begins: int, until_s: float) -> int:
    works = fleet.model.works
    while begins < len(works) and works[begins].at_s < until_s:
        fleet.arrive(works[begins])
        begins += 1
    return begins


def _serve_the_rest(fleet: ModelFleet, now: float) -> None:
    ends_s = now + LONGEST_TAIL_S
    while fleet.in_flight and now < ends_s:
        now += TICK_S
        fleet.advance(now)


def _outcome(fleet: ModelFleet, begins_s: float, dollars: float, counts: Mapping[Key, list[int]]) -> Outcome:
    model = fleet.model
    counted = [each for each in model.works if each.at_s >= begins_s]
    found = score(Replay(counted, fleet.ledger, model.slo, (), 0.0, 0))
    turns = sum(reversals(own) for (name, _), own in counts.items() if name == model.name)
    return Outcome(found, dollars, turns)
