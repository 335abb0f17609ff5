"""Which requests that wait are told apart in metrics, and how many there are of each kind.

They are counted as they come and go: a scrape looks through nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headgate.flow.queue import Waiting
    from headgate.gateway.delivery import Delivery
    from headgate.gateway.queueing.wait import Wait

UNKNOWN = "unknown"
"""Stands for every model that has no route, so that clients cannot make labels up."""


class Kind(NamedTuple):
    """Requests of one pool that are not told apart."""

    priority: int
    flow: str
    """Whose they are."""
    model: str
    """What they ask for,"""
    target: str
    """and what the endpoint is asked for."""


def kind_of(exchange: Delivery, place: Waiting) -> Kind:
    """What clients may make up, as there is a route for every name, is not told apart."""
    decision = exchange.decision
    if decision.match is None or decision.match.route.takes_unknown:
        return Kind(place.priority, place.flow, UNKNOWN, UNKNOWN)
    return Kind(place.priority, place.flow, decision.model, decision.upstream_model)


class Kinds:
    """Of one queue."""

    def __init__(self) -> None:
        self._sizes: dict[Kind, tuple[int, int]] = {}

    def increment(self, wait: Wait) -> None:
        count, size = self._sizes.get(wait.kind, (0, 0))
        self._sizes[wait.kind] = (count + 1, size + wait.place.size)

    def decrement(self, wait: Wait) -> None:
        count, size = self._sizes[wait.kind]
        if count > 1:
            self._sizes[wait.kind] = (count - 1, size - wait.place.size)
        else:
            del self._sizes[wait.kind]

    def sizes(self) -> Iterable[tuple[Kind, tuple[int, int]]]:
        """Of each of which any wait: how many, and the bytes of their bodies."""
        return self._sizes.items()
