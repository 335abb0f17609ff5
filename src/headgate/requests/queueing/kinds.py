"""Counts queued requests by the kinds that metrics distinguish.

Counts are updated as requests come and go, so a scrape iterates over no requests.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from headgate.flow.queue import Waiting
    from headgate.requests.decision import Decision

UNKNOWN: Final = "unknown"
"""Stands for every model without a route, so that clients cannot invent labels."""


class Kind(NamedTuple):
    """Requests of one pool that metrics do not distinguish."""

    priority: int
    flow: str
    """The tenant."""
    model: str
    """The model that the client requested."""
    target: str
    """The model that the endpoint is asked for."""


def kind_of(decision: Decision, place: Waiting) -> Kind:
    """The kind of a queued request. Models of a route for every name count as one, as clients could invent
    them."""
    if decision.match is None or decision.match.route.takes_unknown:
        return Kind(place.priority, place.flow, UNKNOWN, UNKNOWN)
    return Kind(place.priority, place.flow, decision.model, decision.upstream_model)


class Kinds:
    """The counts of one queue."""

    def __init__(self) -> None:
        self._sizes: dict[Kind, tuple[int, int]] = {}

    def increment(self, kind: Kind, bytes_of_body: int) -> None:
        count, size = self._sizes.get(kind, (0, 0))
        self._sizes[kind] = (count + 1, size + bytes_of_body)

    def decrement(self, kind: Kind, bytes_of_body: int) -> None:
        count, size = self._sizes[kind]
        if count > 1:
            self._sizes[kind] = (count - 1, size - bytes_of_body)
        else:
            del self._sizes[kind]

    def sizes(self) -> Iterable[tuple[Kind, tuple[int, int]]]:
        """Each kind with queued requests: their number, and the bytes of their bodies."""
        return self._sizes.items()
