"""The early endpoint picker's tree of filters: critical requests are always admitted, others only with free
capacity.

    critical: any short queue?    yes: [affinity] -> least queue -> least KV
                                  no:  least queue -> [affinity] -> least KV
    others:   any free capacity?  yes: least queue -> [affinity] -> least KV
                                  no:  rejected, 429

Critical means a priority above 0. A request without a priority is Default, and needs free capacity like a
sheddable one. The remaining endpoints have equal chances. A step that would leave none leaves all.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from headgate.fleet import EndpointState
from headgate.scheduling.plugins import signals
from headgate.scheduling.plugins.parameters import Share
from headgate.scheduling.plugins.plugin import Cycle, Filter, Loads

_SHORT_QUEUE = {"v0.1": 50, "v0.3": 128}


class DecisionTreeParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    version: Literal["v0.1", "v0.3"] = "v0.3"
    queueing_threshold_lora: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Queues below it are short for a critical request: 50 in v0.1, 128 in v0.3."""
    queue_threshold_critical: Annotated[int, msgspec.Meta(ge=0)] = 5
    kv_cache_threshold: Share = 0.8
    """An endpoint has capacity for a sheddable request up to these two."""
    lora_affinity_threshold: Share = 0.999
    """Probability with which v0.3 keeps the endpoints that have the request's adapter."""


class DecisionTree(Filter):
    """The whole tree as one filter; `random-picker` takes one of the endpoints that it leaves."""

    kind = "decision-tree"
    judges_adapters = True
    Parameters = DecisionTreeParameters
    about_load = True

    def __init__(self, parameters: DecisionTreeParameters | None = None) -> None:
        super().__init__()
        said = self._said = parameters or DecisionTreeParameters()
        short = said.queueing_threshold_lora
        self._short_queue = short if short is not None else _SHORT_QUEUE[said.version]

    def keep(self, cycle: Cycle, loads: Loads) -> Loads:
        if cycle.request.priority > 0:
            short = self._with_short_queue(loads)
            if short:
                return least_kv(least_queue(self._first_affinity(cycle, short)))
        elif not (loads := self._with_room(loads)):
            return loads
        return least_kv(self._affinity(cycle, least_queue(loads)))

    def _with_short_queue(self, loads: Loads) -> Loads:
        waiting = signals.waiting(loads)
        return [load for load, count in zip(loads, waiting, strict=True) if count < self._short_queue]

    def _with_room(self, loads: Loads) -> Loads:
        most_waiting, most_used = self._said.queue_threshold_critical, self._said.kv_cache_threshold
        waiting, used = signals.waiting(loads), signals.kv_usage(loads)
        return [
            load
            for load, queue, kv in zip(loads, waiting, used, strict=True)
            if queue <= most_waiting and kv <= most_used
        ]

    def _first_affinity(self, cycle: Cycle, loads: Loads) -> Loads:
        """The first affinity step. In v0.1, it prefers an active adapter over a free slot."""
        if self._said.version == "v0.3":
            return self._affinity(cycle, loads)
        name = _name(cycle)
        having = [load for load in loads if name in signals.active_adapters(load)]
        return having or low_adapter_cost(name, loads) or loads

    def _affinity(self, cycle: Cycle, loads: Loads) -> Loads:
        name = _name(cycle)
        if self._said.version == "v0.1":
            return low_adapter_cost(name, loads) or loads
        having = [load for load in loads if name in _wanted(load)]
        room = [load for load in loads if load not in having and _fits_one_more(load, _wanted(load))]
        if having and room:
            return having if cycle.rng.random() < self._said.lora_affinity_threshold else room
        return having or room or loads


def _name(cycle: Cycle) -> str:
    return cycle.request.adapter or cycle.request.model


def _wanted(load: EndpointState) -> frozenset[str]:
    """Adapters that run or wait there; v0.1 considered only those that run."""
    return signals.active_adapters(load) | signals.waiting_adapters(load)


def _fits_one_more(load: EndpointState, active: frozenset[str]) -> bool:
    return len(active) < signals.max_adapters(load)


def low_adapter_cost(name: str, loads: Loads) -> Loads:
    """Endpoints where an adapter is active, or where one more fits."""
    return [
        load
        for load in loads
        if name in (active := signals.active_adapters(load)) or _fits_one_more(load, active)
    ]


def least_queue(loads: Loads) -> Loads:
    """Queues of at most min + (max - min) // n, of n endpoints."""
    if not loads:
        return loads
    queues = signals.waiting(loads)
    most = min(queues) + (max(queues) - min(queues)) // len(queues)
    return [load for load, queue in zip(loads, queues, strict=True) if queue <= most]


def least_kv(loads: Loads) -> Loads:
    """Cache usage of at most min + (max - min) / n, of n endpoints."""
    if not loads:
        return loads
    usages = signals.kv_usage(loads)
    most = min(usages) + (max(usages) - min(usages)) / len(usages)
    return [load for load, usage in zip(loads, usages, strict=True) if usage <= most]
