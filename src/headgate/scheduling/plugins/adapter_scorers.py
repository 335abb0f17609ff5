"""Adapters go where they are active, or where there is room for one more."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.fleet import EndpointState
from headgate.scheduling.plugins import signals
from headgate.scheduling.plugins.plugin import Cycle, Loads, Scorer


class LoraAffinityScorer(Scorer):
    """1 where the adapter is active; 0.8 where one more fits; 0.6 where it waits for a place; else 0.

    The name that is looked for is the one that the endpoint is asked for, so that requests for the base
    model prefer endpoints with room, as the reference has it.
    """

    kind = "lora-affinity-scorer"
    judges_adapters = True

    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        name = cycle.request.adapter or cycle.request.model
        return [_score(name, load) for load in loads]


def _score(name: str, load: EndpointState) -> float:
    active, waiting = signals.active_adapters(load), signals.waiting_adapters(load)
    if name in active:
        return 1.0
    if len(active) + len(waiting) < signals.max_adapters(load):
        return 0.8
    return 0.6 if name in waiting else 0.0
