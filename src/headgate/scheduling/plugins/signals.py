"""What the formulas are fed with: an engine's own figures, brought up to now by what was sent to it since.

A reading is up to a second old. A burst that comes meanwhile would see the same figures for all of its
requests, and go to one endpoint: so what the ledger has counted since the reading is added to it.
"""

from __future__ import annotations

from headgate.fleet import EndpointState
from headgate.scheduling.plugins.plugin import Loads


def waiting(loads: Loads) -> list[int]:
    """Requests in each engine's queue: as read, and those begun less those ended since; not below 0.

    Of an engine that tells nothing, those of this gateway that have no first token yet.
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
    """Requests in each engine's batch: as read, and those begun less those ended since; not below 0.

    Of an engine that tells nothing, all of this gateway.
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
    """How full each engine's KV cache is, 0 to 1. One that tells nothing counts as the mean of the others,
    so that it neither attracts nor repels; if none does, as empty."""
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
    """Adapters whose requests wait for a place in the engine."""
    return load.reading.adapters_waiting if load.reading is not None else frozenset()


def max_adapters(load: EndpointState) -> int:
    """How many adapters fit; 0 where the engine tells nothing."""
    return (load.reading.max_adapters or 0) if load.reading is not None else 0
