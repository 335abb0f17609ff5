"""Whether an endpoint can serve an adapter: loaded, with a free slot, with all slots taken, or unknown to
it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from headgate.fleet.ledger import EndpointState

Place: TypeAlias = Literal["loaded", "fits", "full", "unknown"]
"""`full`: the adapters in use fill a batch, so a request has to wait for a slot. `unknown`: the engine does
not list the adapter, or responded 404 for it."""


def place(load: EndpointState, adapter: str) -> Place:
    """State of an adapter on an endpoint, from the requests in flight and the last reading.

    Without a reading, the endpoint counts as having a free slot.
    """
    if adapter in load.models.lacking:
        return "unknown"
    reading = load.reading
    if adapter in load.adapters:
        return "loaded"
    if reading is None:
        return "fits"
    running, waiting, limit = reading.adapters_running, reading.adapters_waiting, reading.max_adapters
    if adapter in running or adapter in waiting:
        return "loaded"
    if reading.models is not None and adapter not in reading.models:
        return "unknown"
    # Build the union only where it matters: most names are in several of the three sets.
    if limit is None or len(load.adapters) + len(running) + len(waiting) < limit:
        return "fits"
    return "fits" if len(in_use(load)) < limit else "full"


def not_lacking(adapter: str, loads: Sequence[EndpointState]) -> Sequence[EndpointState]:
    """The endpoints that have not responded 404 for an adapter recently, or all if there are none."""
    return [load for load in loads if adapter not in load.models.lacking] or loads


def in_use(load: EndpointState) -> set[str]:
    """The adapters that requests on an endpoint use or wait for, including requests of other gateways."""
    reading = load.reading
    if reading is None:
        return set(load.adapters)
    return {*load.adapters, *reading.adapters_running, *reading.adapters_waiting}
