"""Endpoints that rejected a request, until another endpoint's response to it tells whose fault that was."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headgate.fleet import blame

if TYPE_CHECKING:
    from headgate.fleet import EndpointLoad
    from headgate.gateway.pool_state import PoolState
    from headgate.gateway.proxy import Proxy

ACCEPTED_AFTER_S = 2.0
"""An endpoint that works on a request for this long has not rejected it, and rejections come fast."""


class _Suspect(NamedTuple):
    load: EndpointLoad
    status: int
    back_at: float | None
    """When it wants requests again; None where it did not say so."""


class Suspects:
    """Those of one request. They are avoided for a second, or as long as they asked for, and blamed once they
    are found to have failed."""

    __slots__ = ("_of", "_proxy")

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._of: list[_Suspect] = []

    def add(self, load: EndpointLoad, status: int, back_at: float | None, now: float) -> None:
        if back_at is None:
            load.suspected(now)
        self._of.append(_Suspect(load, status, back_at))

    def have(self, status: int) -> bool:
        return any(each.status == status for each in self._of)

    def back_at(self) -> list[float]:
        """When those want requests again that said so."""
        return [each.back_at for each in self._of if each.back_at is not None]

    def failed(self, pool: PoolState) -> None:
        """Another endpoint serves the request: its rejections were the fault of those that sent them. To ask
        for fewer requests is no failure."""
        for load, status, back_at in self._of:
            if back_at is None:
                self._proxy.health.failed(pool, load, f"status_{status}", self._proxy.now())
        self._of.clear()

    def compare(self, pool: PoolState, status: int) -> None:
        """Another endpoint has rejected the request too, and none is asked after it. Whoever gave the same
        status is not to blame, nor is anybody for a client's mistake; 0 is no status. 429 of all of them may
        be a limit of that client, for which others need not stay away."""
        for load, given, back_at in self._of:
            if back_at is not None:
                if given == status == blame.TOO_MANY:
                    load.rested()
            elif given != status and given in blame.UNAVAILABLE:
                self._proxy.health.failed(pool, load, f"status_{given}", self._proxy.now())
            else:
                load.cleared()
        self._of.clear()
