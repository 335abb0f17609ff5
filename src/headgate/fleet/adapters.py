"""What an endpoint can do for an adapter: it has it loaded, has a place for it, has none, or knows it not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from headgate.fleet.ledger import EndpointState

Place: TypeAlias = Literal["loaded", "fits", "full", "unknown"]
"""`full`: as many others are in use as fit into one batch, so that a request would wait for a place;
`unknown`: the engine does not answer to the name, as far as its list of models or a 404 of it goes."""


def place(load: EndpointState, adapter: str) -> Place:
    """How an adapter stands with an endpoint, by the requests on their way and by the last reading.

    An endpoint of which nothing is known counts as one that has a place.
    """
    if adapter in load.lacking:
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
    # The union is made only where it matters: most of these are the same adapters.
    if limit is None or len(load.adapters) + len(running) + len(waiting) < limit:
        return "fits"
    return "fits" if len(in_use(load)) < limit else "full"


def not_lacking(adapter: str, loads: Sequence[EndpointState]) -> Sequence[EndpointState]:
    """Those that have not answered 404 for an adapter lately; all if there are none."""
    return [load for load in loads if adapter not in load.lacking] or loads


def in_use(load: EndpointState) -> set[str]:
    """The adapters that requests on an endpoint use or wait for, whoever sent them."""
    reading = load.reading
    if reading is None:
        return set(load.adapters)
    return {*load.adapters, *reading.adapters_running, *reading.adapters_waiting}
