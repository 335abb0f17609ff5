"""A request on its way to an endpoint: from its decision, past limits and queue, to its first attempt.

States follow one another: tokens of the route's limit are reserved, or waited for; the request passes the
queue of its pool, or waits for its turn there; then it goes. How it is brought to an endpoint is `Attempts`'.
"""

from __future__ import annotations

import asyncio
import logging
import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from headgate.gateway import large_reader, limiting
from headgate.quota.lease_source import TIME_TO_ASK_AGAIN
from headgate.requests.bodies import large
from headgate.requests.bodies.pieces import Pieces
from headgate.requests.decision import Decision, decide, encoded
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.fleet import Booking, EndpointState, Suspects
    from headgate.flow.limits import Reservation
    from headgate.gateway.handover import Handover
    from headgate.gateway.proxy import Proxy
    from headgate.gateway.queueing.wait import Wait
    from headgate.gateway.request import Request
    from headgate.gateway.upstream import UpstreamConnection
    from headgate.quota.waiter import Waiter
    from headgate.requests.pool_state import PoolState
    from headgate.scheduling import Choice

log = logging.getLogger(__name__)

_REQUEST_ID = re.compile(rb"[!-~]{1,128}")
"""What a client may call its request: it is printed in logs and sent back."""


class Delivery(ABC):
    """Comes to `_attempt` when it may go, and to `_refuse` where it may not.

    A base class, as a part of its own would be one more object for each request.
    """

    __slots__ = (
        "_connecting",
        "_long_body",
        "_payload",
        "_proxy",
        "_timer",
        "_tried",
        "_upstream",
        "attempt_at",
        "attempts",
        "booking",
        "bytes_out",
        "choice",
        "decision",
        "failed_attempts",
        "handover",
        "load",
        "pool",
        "prefix_used_at",
        "request",
        "request_id",
        "reservation",
        "settled",
        "suspects",
        "wait",
    )

    def __init__(self, proxy: Proxy, request: Request) -> None:
        self._proxy = proxy
        self.request = request
        given_id = request.given_id
        is_plain = given_id and _REQUEST_ID.fullmatch(given_id)
        self.request_id = given_id if is_plain else proxy.new_request_id()
        is_large = len(request.body) > large.LARGE_BYTES
        self.decision = Decision() if is_large else decide(proxy, request)
        """Of a large body, made when it was read."""
        self.pool = self.decision.pool
        self.choice: Choice | None = None
        """Of the last attempt."""
        self.handover: Handover | None = None
        """Of a request that comes to a pool where prefill and decode are apart."""
        self.load: EndpointState | None = None
        self.booking: Booking | None = None
        self.prefix_used_at: float | None = None
        """When the endpoint last used the end of what it is believed to hold of the prompt."""
        self.attempts = 0
        self.attempt_at = request.arrived_at
        """When the last attempt began."""
        self.failed_attempts: list[tuple[str, str, int]] | None = None
        """Those before it: the endpoint's name, what happened, milliseconds."""
        self.suspects: Suspects | None = None
        """The endpoints that rejected it, as long as it is open whose fault that was."""
        self.bytes_out = 0
        self.reservation: Reservation | None = None
        """What it holds of the token limit of its route, if that has one."""
        self.settled = False
        """Whether it is over, whatever came of it."""
        self.wait: Wait | None = None
        """Its time in the pool's queue; None for the many that may go at once."""
        self._payload = b""
        self._long_body: bytes | Pieces = b""
        """Sent after the payload; empty where the payload includes the body. Joining them would copy it."""
        self._upstream: UpstreamConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | Waiter | large_reader.Reading | None = None
        self._tried: list[EndpointState] = []

    @abstractmethod
    def _attempt(self, now: float) -> None:
        """Sends the request to an endpoint."""

    @abstractmethod
    def _refuse(self, refusal: Refusal) -> None:
        """No endpoint can be asked, or asked again."""

    def start(self, now: float) -> None:
        """Begins, at `now`: the time of one event is read once, and handed on to all that comes of it."""
        if len(self.request.body) > large.LARGE_BYTES:
            self._read_large()
        else:
            self._begin(now)

    def _read_large(self) -> None:
        proxy, request = self._proxy, self.request
        refusal = proxy.paths.refusal(request.path) or encoded(request)
        if refusal is not None:
            self._refuse(refusal)
            return
        self._timer = proxy.large_bodies.begin(request.headers, request.body, request.path, self._begin_large)

    def _begin_large(self, body: large.Body | None) -> None:
        """What the decision needs of a large body was read."""
        self._timer = None
        try:
            if body is None:
                self._refuse(Refusal.broken("the gateway failed to read the request: its log says why"))
                return
            self.decision = decide(self._proxy, self.request, body)
            self.pool = self.decision.pool
            self._begin(self._proxy.now())
        except Exception:
            self._broke()

    def _begin(self, now: float) -> None:
        decision = self.decision
        if decision.refusal is not None:
            self._refuse(decision.refusal)
            return
        assert decision.match is not None
        if decision.match.route.limits is not None:
            refusal = limiting.reserve(self._proxy, self, now, self._reserve_again)
            if refusal is not None:
                self._refuse(refusal)
                return
            if self._timer is not None:
                return  # it waits for tokens
        self._enter(now)

    def wait_for_tokens(self, waiter: Waiter) -> None:
        """They are on their way from where they are counted, or will not be there in time."""
        self._timer = waiter

    def _reserve_again(self) -> None:
        """Tokens were fetched for it, or are not to be had in time."""
        self._timer = None
        try:
            if self._finds_pool("for tokens of its limit"):
                self._reserve_fetched(self._proxy.now())
        except Exception:
            self._broke()

    def _reserve_fetched(self, now: float) -> None:
        """Others may have taken them first: then they are fetched once more, if there is time for that."""
        proxy = self._proxy
        is_early = now - self.request.arrived_at < proxy.settings.rate_limits.wait_s * TIME_TO_ASK_AGAIN
        refusal = limiting.reserve(proxy, self, now, self._reserve_again if is_early else None)
        if refusal is not None:
            self._refuse(refusal)
        elif self._timer is None:
            self._enter(now)

    def _enter(self, now: float) -> None:
        """Goes, or waits for its turn in its pool."""
        pool = self.pool
        assert pool is not None
        queue = pool.queue
        if queue is None or queue.passes(self.decision.scheduled.priority, now):
            self.go(pool, now)
        else:
            queue.hold(self, now)

    def go(self, pool: PoolState, now: float) -> None:
        """Begins with its attempts: it need not wait for its turn, or no longer."""
        self.pool = pool
        pool.budget.requests += 1
        if self._proxy.settings.tracing.sample_ratio:
            self._proxy.begin_trace(self.request)
        request, body = self.request, self.decision.body
        if body is not request.body:
            request.body = b""  # of the two, one is sent
        self._payload, self._long_body = request.parts(body, self.request_id)
        self._attempt(now)

    def turn_away(self, refusal: Refusal) -> None:
        """Its turn does not come."""
        self._refuse(refusal)

    def _finds_pool(self, waited_for: str) -> bool:
        """Goes on with the pool as it is now; where that is gone, the request is refused."""
        assert self.pool is not None
        key = self.pool.pool.key
        pool = self._proxy.pools.get(key)
        if pool is None:
            why = f"{key} was deleted while the request waited {waited_for}"
            self._refuse(Refusal.unavailable(why, code="no_ready_endpoint", dropped="rejected-no-endpoints"))
            return False
        self.pool = pool
        return True

    def _broke(self) -> None:
        """Answers a request for an exception that nobody else would see, which is being handled."""
        log.exception(
            "a request to %s could not be sent", self.pool.pool.key if self.pool is not None else "no pool"
        )
        if self.settled:
            raise
        self._refuse(Refusal.broken("the gateway failed to send the request: its log says why"))

    # -- what it holds

    def _drop_body(self) -> None:
        """Nothing is sent again: a stream need not hold its prompt."""
        self._payload = self._long_body = self.request.body = self.decision.body = b""
        self.decision.change = None

    def _end_booking(self, now: float, answer_tokens: int | None = None) -> None:
        """`answer_tokens`: those of a complete answer, if the endpoint has counted them."""
        if self.booking is not None:
            self.booking.end(now, answer_tokens)
            self.booking = None
            if self._proxy.queues.held:
                self._room_made()

    def _room_made(self) -> None:
        """Another may go now, if any waits."""
        assert self.pool is not None
        if self.pool.queue is not None:
            self.pool.queue.room_made()
