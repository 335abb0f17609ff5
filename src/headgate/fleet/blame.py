"""Whose fault a status is: the endpoint's, or that of the request, which every endpoint would answer alike.

A status alone does not tell. A retry does: if another endpoint answers well, the first one has failed; if it
answers with the same status, nobody has. Where there is no retry, the next request of the like tells it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.fleet.ledger import EndpointState

TOO_MANY = 429
UNAVAILABLE = frozenset({502, 503, 504})
"""Failures of the endpoint as well where no other endpoint was asked."""
OVERLOADED = UNAVAILABLE | {TOO_MANY}
"""A third endpoint may have capacity where two had none."""
OF_CLIENTS = frozenset({401, 403, 404})
"""Mostly the client's own mistake, which it repeats."""
LIKELY_SHARED = OF_CLIENTS | {TOO_MANY}
"""Others are rejected alike that have the same credentials, or ask for the same."""
RESERVED = 0.5
"""The part of the retry budget that mistakes of clients leave to failures of endpoints."""

REMEMBERED_S = 10.0
REFUTED_S = 60.0
MAX_REMEMBERED = 1024


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

    __slots__ = ("_alone", "_refuted", "_until", "alone_until")

    def __init__(self) -> None:
        self._alone: dict[Hashable, tuple[EndpointState, int, float]] = {}
        """Who gave one where no other endpoint was asked, with the status, and until when that counts."""
        self.alone_until = -math.inf
        """Until when there may be any of these."""
        self._until: dict[Hashable, float] = {}
        self._refuted: dict[Hashable, float] = {}
        """Until when two endpoints that agree are not believed."""

    def note(self, key: Hashable, now: float) -> None:
        """Notes that endpoints agree. `key` has the status and what it depends on."""
        _bound(self._until)
        self._until[key] = now + REMEMBERED_S

    def alone(self, key: Hashable, load: EndpointState, status: int, now: float) -> None:
        """An endpoint gave one, and no other can be asked: the next request with this key goes to another, if
        it asks `alone_with`. If that one gives it as well, they agree."""
        other, _, until = self._alone.pop(key, (load, status, 0.0))
        if other is not load and until > now:
            if self._refuted.get(key, now) <= now:
                self.note(key, now)
            return
        if len(self._alone) >= MAX_REMEMBERED:
            self._alone.clear()
        self.alone_until = now + REMEMBERED_S
        self._alone[key] = load, status, self.alone_until

    def alone_with(self, keys: Iterable[Hashable], now: float) -> list[EndpointState]:
        """Those that a request with these keys had better not go to."""
        known = (self._alone.get(key) for key in keys)
        return [each[0] for each in known if each is not None and each[2] > now]

    def served(
        self, keys: Callable[[], Iterable[Hashable]], load: EndpointState, now: float
    ) -> Sequence[tuple[EndpointState, int]]:
        """An endpoint serves a request with these keys: if others agree on a rejection of the like, they are
        at fault, and for `REFUTED_S` that is not enough. Returns who gave one alone, with its status."""
        if not self._until and self.alone_until <= now:
            return ()
        failed = []
        for key in keys():
            if self._until.pop(key, 0.0) > now:
                _bound(self._refuted)
                self._refuted[key] = now + REFUTED_S
            other, status, until = self._alone.pop(key, (load, 0, 0.0))
            if other is not load and until > now:
                failed.append((other, status))
        return failed

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
    if len(times) >= MAX_REMEMBERED:
        times.clear()
