"""Which requests that wait are told apart in metrics, and how many there are of each kind.

They are counted as they come and go: a scrape looks through nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from headgate.flow.queue import Waiting
    from headgate.requests.decision import Decision

UNKNOWN: Final = "unknown"
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


def kind_of(decision: Decision, place: Waiting) -> Kind:
    """What clients may make up, as there is a route for every name, is not told apart."""
    if decision.match is None or decision.match.route.takes_unknown:
        return Kind(place.priority, place.flow, UNKNOWN, UNKNOWN)
    return Kind(place.priority, place.flow, decision.model, decision.upstream_model)


class Kinds:
    """Of one queue."""

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
        """Of each of which any wait: how many, and the bytes of their bodies."""
        return self._sizes.items()
