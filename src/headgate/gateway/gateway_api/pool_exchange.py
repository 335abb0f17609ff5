"""An exchange with a pool that a rule of the Gateway API leads to.

In its own file, as a subclass of a compiled class is compiled too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.gateway.exchange import Client, Exchange
from headgate.requests import fallbacks, fallen, states, way
from headgate.requests.bodies import large
from headgate.requests.deciding.decide import decide_in
from headgate.requests.received import OpaqueBody
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate import routing
    from headgate.gateway.request import Request
    from headgate.gateway.services import Services
    from headgate.gateway.upstream import UpstreamConnection
    from headgate.requests.client import Header
    from headgate.requests.pool_state import PoolState
    from headgate.routing.gateway_api import HeaderChange


class PoolExchange(Exchange):
    """The pool is known before the request begins; everything else is as for any request to it."""

    __slots__ = ("_assigned", "_changes", "_route")

    def __init__(
        self,
        services: Services,
        client: Client,
        request: Request,
        pool: PoolState,
        route: routing.Route,
        changes: list[HeaderChange],
    ) -> None:
        """`route` is that of requests that no route for their model leads to the pool; `changes` are those of
        the response's headers."""
        super().__init__(services, client, request)
        self._assigned = pool
        self._route = route
        self._changes = changes

    def start(self, now: float) -> None:
        """Start at `now`, as `Exchange.start`. A large body is read first."""
        request = self.request
        if len(request.body) > large.LARGE_BYTES:
            read = self._services.large_bodies.begin
            self._timer = read(request.headers, request.body, request.path, self._large_body_read)
        else:
            self._report(lambda: self._decide(None, now), now)

    def _large_body_read(self, body: large.Body | None) -> None:
        self._timer = None
        now = self.now()
        self._report(lambda: self._decide(body, now), now)

    def _decide(self, body: large.Body | None, now: float) -> None:
        life = self.life
        life.decision = decision = decide_in(life.plane, self.request, self._assigned, self._route, body)
        if body is not None:
            life.fallen = fallen.begun(decision, body)
        if not decision.model:
            # Neither counts nor content are expected: an empty response is no failure.
            self._received = life.received = OpaqueBody(self.request.path)
        way.decided(life, now)

    def response_head(
        self, connection: UpstreamConnection, status: int, headers: list[Header], now: float
    ) -> None:
        if self.life.fallen is not None:
            headers = self._kept(headers)
        for change in self._changes:
            headers = change.apply(headers)
        self._take_head(status, headers, now)

    def out_of_time(self, now: float) -> bool:
        """The rule's timeout is over. Returns whether that ends the request; if not, it waits for something
        that ends soon by itself."""
        if self.life.state & (states.QUEUED | states.TRYING):
            fallbacks.end(self.life)  # the time is for all pools together
            refusal = Refusal.upstream("no endpoint responded in time", code="upstream_timeout", status=504)
            self.turn_away(refusal, now)
            return True
        if self.life.state == states.ANSWERING:
            self._client.abort()
            return True
        return self.life.is_over
