"""Prefers endpoints where an adapter is active, or where one more fits."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.fleet import EndpointState
from headgate.scheduling.plugins import signals
from headgate.scheduling.plugins.plugin import Cycle, Loads, Scorer


class LoraAffinityScorer(Scorer):
    """1 where the adapter is active; 0.8 where one more fits; 0.6 where it waits for a slot; else 0.

    It looks for the name sent to the endpoint, so that requests for the base model prefer endpoints with free
    slots, as in the reference implementation.
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
