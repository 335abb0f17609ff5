"""Whose fault a status is: the endpoint's, or that of the request, which every endpoint would answer alike.

A status alone does not tell. A retry does: if another endpoint answers well, the first one has failed; if it
answers with the same status, nobody has.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

TOO_MANY = 429
UNAVAILABLE = frozenset({502, 503, 504})
"""Failures of the endpoint as well where no other endpoint was asked."""
OVERLOADED = UNAVAILABLE | {TOO_MANY}
"""A third endpoint may have capacity where two had none."""
OF_CLIENTS = frozenset({401, 403, 404})
"""Mostly the client's own mistake, which it repeats."""
RESERVED = 0.5
"""The part of the retry budget that mistakes of clients leave to failures of endpoints."""

REMEMBERED_S = 10.0
REFUTED_S = 60.0
MOST_REMEMBERED = 1024


def is_suspect(status: int) -> bool:
    """Whether a status may be the fault of the endpoint that sent it."""
    return status >= 500 or status == TOO_MANY or status in OF_CLIENTS


def reserved(status: int) -> float:
    """The part of the retry budget that is not for a request with this status."""
    return RESERVED if status < 500 else 0.0


class SharedStatuses:
    """Rejections that two endpoints of a pool gave alike, remembered for `REMEMBERED_S`.

    A client with a wrong key sends many requests: one of them each ten seconds is retried.
    """

    __slots__ = ("_refuted", "_until")

    def __init__(self) -> None:
        self._until: dict[Hashable, float] = {}
        self._refuted: dict[Hashable, float] = {}
        """Until when two endpoints that agree are not believed."""

    def note(self, key: Hashable, now: float) -> None:
        """Notes that endpoints agree. `key` has the status and what it depends on."""
        _bound(self._until)
        self._until[key] = now + REMEMBERED_S

    def served(self, keys: Callable[[], Iterable[Hashable]], now: float) -> None:
        """An endpoint serves a request with these keys: if others agree on a rejection of the like, they are
        at fault, and for `REFUTED_S` that is not enough."""
        if self._until:
            for key in keys():
                if self._until.pop(key, 0.0) > now:
                    _bound(self._refuted)
                    self._refuted[key] = now + REFUTED_S

    def has(self, key: Hashable, now: float) -> bool:
        return self._until.get(key, now) > now

    def is_open(self, status: int, key: Callable[[], Hashable], now: float, *, is_shared: bool) -> bool:
        """Whether another endpoint's response to a request would tell more of the status. `is_shared` says
        that an endpoint gave it before, and `key` what a client's mistake depends on."""
        if status in OVERLOADED:
            return True
        if status not in OF_CLIENTS:
            return not is_shared
        of = key()
        if is_shared and self._refuted.get(of, now) <= now:
            self.note(of, now)
        return not self.has(of, now)

    def statistics(self) -> dict[str, int]:
        return {"remembered": len(self._until)}


def _bound(times: dict[Hashable, float]) -> None:
    """Clients make keys up."""
    if len(times) >= MOST_REMEMBERED:
        times.clear()
