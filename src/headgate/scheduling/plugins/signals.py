"""Inputs of the scorers: an engine's figures, updated by what was sent to it since the reading.

A reading is up to a second old. All requests of a burst would see the same figures and go to one endpoint, so
the ledger's counts since the reading are added.
"""

from __future__ import annotations

from headgate.fleet import EndpointState
from headgate.scheduling.plugins.plugin import Loads


def waiting(loads: Loads) -> list[int]:
    """Requests in each engine's queue: as read, plus those begun and minus those ended since; at least 0.

    Without a reading, this gateway's requests without a first token.
    """
    return [
        (
            (count if (count := told + load.requests - load.requests_at_reading) > 0 else 0)
            if (reading := load.reading) is not None and (told := reading.waiting) is not None
            else load.requests - load.decoding
        )
        for load in loads
    ]


def running(loads: Loads) -> list[int]:
    """Requests in each engine's batch: as read, plus those begun and minus those ended since; at least 0.

    Without a reading, all of this gateway's requests.
    """
    return [
        (
            (count if (count := told + load.requests - load.requests_at_reading) > 0 else 0)
            if (reading := load.reading) is not None and (told := reading.running) is not None
            else load.requests
        )
        for load in loads
    ]


def kv_usage(loads: Loads) -> list[float]:
    """KV cache usage of each engine, 0 to 1. One that does not report it counts as the mean of the others, so
    that it is neither preferred nor avoided; if none reports it, as empty."""
    usages = [reading.kv_usage if (reading := load.reading) is not None else None for load in loads]
    known = [usage for usage in usages if usage is not None]
    if len(known) == len(loads):
        return known
    mean = sum(known) / len(known) if known else 0.0
    return [mean if usage is None else usage for usage in usages]


def active_adapters(load: EndpointState) -> frozenset[str]:
    """Adapters with requests in the engine's batch."""
    return load.reading.adapters_running if load.reading is not None else frozenset()


def waiting_adapters(load: EndpointState) -> frozenset[str]:
    """Adapters whose requests wait for a slot in the engine."""
    return load.reading.adapters_waiting if load.reading is not None else frozenset()


def max_adapters(load: EndpointState) -> int:
    """How many adapters fit; 0 if the engine does not report it."""
    return (load.reading.max_adapters or 0) if load.reading is not None else 0
