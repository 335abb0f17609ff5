"""Decides whether an error status is the fault of the endpoint or of the request.

The status alone does not show it. A retry does: if another endpoint succeeds, the first one has failed; if it
returns the same status, the request is at fault. Without a retry, the next similar request decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.fleet.ledger import EndpointState

TOO_MANY = 429
UNAVAILABLE = frozenset({502, 503, 504})
"""Count as failures of the endpoint even if no other endpoint was tried."""
OVERLOADED = UNAVAILABLE | {TOO_MANY}
"""Worth a third attempt: another endpoint may have capacity where two had none."""
OF_CLIENTS = frozenset({401, 403, 404})
"""Mostly the client's own mistake, which it repeats."""
LIKELY_SHARED = OF_CLIENTS | {TOO_MANY}
"""Requests with the same credentials, or for the same model, are likely to be rejected as well."""
RESERVED = 0.5
"""The share of the retry budget that client mistakes leave to endpoint failures."""

REMEMBERED_S = 10.0
REFUTED_S = 60.0
MAX_REMEMBERED = 1024


def is_suspect(status: int) -> bool:
    """Whether the endpoint that returned this status may be at fault."""
    return status >= 500 or status == TOO_MANY or status in OF_CLIENTS


def reserved(status: int) -> float:
    """The share of the retry budget that a request with this status must not use."""
    return RESERVED if status < 500 else 0.0


class SharedStatuses:
    """Rejections on which two endpoints of a pool agreed, remembered for `REMEMBERED_S`.

    A client with a wrong key sends many requests; this limits retries of them to one per ten seconds.
    """

    __slots__ = ("_alone", "_refuted", "_until", "alone_until")

    def __init__(self) -> None:
        self._alone: dict[Hashable, tuple[EndpointState, int, float]] = {}
        """Rejections that no other endpoint has confirmed: who sent it, its status, and when it expires."""
        self.alone_until = -math.inf
        """When the last entry of `_alone` expires."""
        self._until: dict[Hashable, float] = {}
        self._refuted: dict[Hashable, float] = {}
        """Keys for which two agreeing endpoints are not trusted, and until when."""

    def note(self, key: Hashable, now: float) -> None:
        """Record that endpoints agree. `key` holds the status and what it depends on."""
        _bound(self._until)
        self._until[key] = now + REMEMBERED_S

    def alone(self, key: Hashable, load: EndpointState, status: int, now: float) -> None:
        """Record that an endpoint returned `status` and no other can be tried. The next request with this key
        goes to another endpoint if its caller avoids those of `alone_with`; if that one returns the status
        too, they agree."""
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
        """The endpoints that a request with these keys should avoid."""
        known = (self._alone.get(key) for key in keys)
        return [each[0] for each in known if each is not None and each[2] > now]

    def served(
        self, keys: Callable[[], Iterable[Hashable]], load: EndpointState, now: float
    ) -> Sequence[tuple[EndpointState, int]]:
        """Record that an endpoint served a request with these keys. Endpoints that had agreed on rejecting it
        are at fault, and for `REFUTED_S` two that agree are not trusted. Returns the endpoints with
        unconfirmed rejections, and their statuses."""
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
        """Whether a retry on another endpoint would show more about the status. `is_shared`: an endpoint has
        returned it before. `key`: what a client's mistake depends on."""
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
    """Bound the number of remembered keys, which clients control."""
    if len(times) >= MAX_REMEMBERED:
        times.clear()
