"""The models and pools that a request has left for others."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headgate import routing
    from headgate.requests.bodies import large
    from headgate.requests.decision import Decision


class Hop(NamedTuple):
    """A model and pool that were left."""

    model: str
    route: str
    pool: str
    """Empty if there was none."""
    reason: str


class Fallen:
    """The places that a request has left, and what is needed to leave further ones."""

    __slots__ = ("attempts", "body", "fallback", "hops", "place", "upcoming")

    def __init__(self, body: large.Body | None = None) -> None:
        self.hops: list[Hop] = []
        self.attempts = 0
        """Attempts before the present pool."""
        self.body = body
        """Of a large request."""
        self.place = 0
        """The entry of the list that `upcoming` is for, or the first that was not looked at."""
        self.fallback: routing.Fallback | None = None
        """The list, once a place was left."""
        self.upcoming: Decision | None = None
        """Where the request goes next, once that is decided."""


def begun(decision: Decision, body: large.Body) -> Fallen | None:
    """For a large request that may be taken over, what that needs of its body; None for others."""
    return Fallen(body) if decision.fallback is not None else None
