"""A request on its way: attempts to bring it to an endpoint, until one answers or none may be tried any more.

States follow one another: an endpoint is chosen, a connection to it taken or made, the request sent on it; an
attempt that fails before the answer's head is followed by another while the pool allows it, at once or after
an interval. What becomes of the answer is `Exchange`'s.
"""

from __future__ import annotations

import asyncio
import logging
import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from headgate import scheduling
from headgate.gateway import learning, limiting
from headgate.gateway.connections import ShortageError, why_unreachable
from headgate.gateway.decision import decide, no_endpoint
from headgate.gateway.limiting.lease_source import TIME_TO_ASK_AGAIN
from headgate.gateway.refusals import Refusal

if TYPE_CHECKING:
    from headgate.fleet import Booking, EndpointLoad
    from headgate.flow.limits import Reservation
    from headgate.gateway.connections import EndpointConnections
    from headgate.gateway.handover import Handover
    from headgate.gateway.limiting.waiter import Waiter
    from headgate.gateway.pool_state import PoolState
    from headgate.gateway.proxy import Proxy
    from headgate.gateway.queueing.wait import Wait
    from headgate.gateway.request import Request
    from headgate.gateway.upstream import UpstreamConnection
    from headgate.scheduling import Choice

log = logging.getLogger(__name__)

RETRIED = frozenset({502, 503, 504})
"""Statuses by which an endpoint or a proxy before it says that another may do better."""

_REQUEST_ID = re.compile(rb"[!-~]{1,128}")
"""What a client may call its request: it is printed in logs and sent back."""


class Delivery(ABC):
    """Comes to `_send_on` with each endpoint that it reaches, and to `_refuse` when there is none left.

    A base class, as a part of its own would be one more object for each request.
    """

    __slots__ = (
        "_connecting",
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
        "wait",
    )

    def __init__(self, proxy: Proxy, request: Request) -> None:
        self._proxy = proxy
        self.request = request
        given_id = request.given_id
        is_plain = given_id and _REQUEST_ID.fullmatch(given_id)
        self.request_id = given_id if is_plain else proxy.new_request_id()
        self.decision = decide(proxy, request)
        self.pool = self.decision.pool
        self.choice: Choice | None = None
        """Of the last attempt."""
        self.handover: Handover | None = None
        """Of a request that comes to a pool where prefill and decode are apart."""
        self.load: EndpointLoad | None = None
        self.booking: Booking | None = None
        self.prefix_used_at: float | None = None
        """When the endpoint last used the end of what it is believed to hold of the prompt."""
        self.attempts = 0
        self.attempt_at = request.arrived_at
        """When the last attempt began."""
        self.failed_attempts: list[tuple[str, str, int]] | None = None
        """Those before it: the endpoint's name, what happened, milliseconds."""
        self.bytes_out = 0
        self.reservation: Reservation | None = None
        """What it holds of the token limit of its route, if that has one."""
        self.settled = False
        """Whether it is over, whatever came of it."""
        self.wait: Wait | None = None
        """Its time in the pool's queue; None for the many that may go at once."""
        self._payload = b""
        self._upstream: UpstreamConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | Waiter | None = None
        self._tried: list[EndpointLoad] = []

    @abstractmethod
    def _send_on(self, connection: UpstreamConnection, now: float) -> None:
        """The endpoint is reached: the payload goes to it."""

    @abstractmethod
    def _attempt_apart(self, pool: PoolState, now: float) -> None:
        """Sends the request to a pair of endpoints."""

    @abstractmethod
    def _refuse(self, refusal: Refusal) -> None:
        """No endpoint can be asked, or asked again."""

    def start(self, now: float) -> None:
        """Begins, at `now`: the time of one event is read once, and handed on to all that comes of it."""
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
        is_early = now - self.request.arrived_at < proxy.settings.rate_limit_wait_s * TIME_TO_ASK_AGAIN
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
        if self._proxy.settings.begin_traces:
            self._proxy.begin_trace(self.request)
        self._payload = self.request.message(self.decision.body, self.request_id)
        self._attempt(now)

    def turn_away(self, refusal: Refusal) -> None:
        """Its turn does not come."""
        self._refuse(refusal)

    # -- one attempt

    def _attempt(self, now: float) -> None:
        """Sends the request to an endpoint that was not tried yet.

        A policy that raises fails the request, and not the connection of the client. Often nobody is there to
        see what is raised: further attempts come from timers and tasks.
        """
        assert self.pool is not None
        try:
            self._send_somewhere(self.pool, now)
        except Exception:
            self._broke()

    def _broke(self) -> None:
        """Answers a request for an exception that nobody else would see, which is being handled."""
        assert self.pool is not None
        log.exception("a request to %s could not be sent", self.pool.pool.key)
        if self.settled:
            raise
        self._refuse(Refusal.broken("the gateway failed to send the request: its log says why"))

    def _send_somewhere(self, pool: PoolState, now: float) -> None:
        scheduled = self.decision.scheduled
        if pool.pairs is not None or self.handover is not None:
            self._attempt_apart(pool, now)
            return
        self.attempt_at = now
        proxy, tried = self._proxy, self._tried
        most = proxy.settings.max_endpoint_connections
        choice = scheduling.pick(pool.policy, scheduled, pool.loads, now, proxy.rng, tried, most)
        if choice is None:
            self._refuse(no_endpoint(pool, most, proxy.refused(pool, scheduled, tried)))
            return
        self.choice = choice
        load = self.load = choice.load
        tried.append(load)
        self.attempts += 1
        cached_tokens = choice.cached_tokens
        uncached_tokens = scheduled.prompt_tokens - cached_tokens
        self.booking = load.book(
            uncached_tokens if uncached_tokens > 0 else 0,
            scheduled.output_tokens,
            now,
            self.decision.stream,
            scheduled.adapter,
        )
        is_telling = cached_tokens >= learning.LEAST_TOKENS
        self.prefix_used_at = proxy.prefixes.used_at(scheduled.prefix, load) if is_telling else None
        pool.policy.booked(scheduled, choice, now)
        if proxy.kv_events.sources:
            proxy.kv_events.sent(self.decision, choice, now)
        self._ask(pool, load, now)

    def _ask(self, pool: PoolState, load: EndpointLoad, now: float) -> None:
        """Sends the payload to an endpoint, on a connection that there is or is made."""
        timeout_s = pool.pool.timeout_s
        if timeout_s is not None:
            self._timer = self._proxy.loop.call_later(timeout_s, self._no_head_in_time)
        connections = pool.connections.get(load) or self._proxy.connections(pool, load)
        connection = connections.take()
        if connection is not None:
            self._send_on(connection, now)
        else:
            self._send_on_new(connections)

    def _send_on_new(self, connections: EndpointConnections) -> None:
        self._connecting = self._proxy.spawn(self._connect(connections))

    async def _connect(self, connections: EndpointConnections) -> None:
        started_at = self._proxy.now()
        try:
            connection = await connections.connect()
        except ShortageError as error:
            self._connecting = None
            self._refuse(Refusal.unavailable(str(error), code="gateway_exhausted"))
            return
        except Exception as error:
            # A host that cannot even be encoded is a ValueError. Anything else is a fault of ours, and the
            # client must not wait for ever for it.
            if not isinstance(error, OSError | ValueError):
                log.exception("connecting to %s", connections.endpoint.address)
            self._connecting = None
            if isinstance(error, ConnectionRefusedError) and self.load is not None:
                self._proxy.engine_restarted(self.load)  # its process has ended, and its cache with it
            self._attempt_failed("connect", f"{connections.endpoint.address} {why_unreachable(error)}")
            return
        self._connecting = None
        assert self.pool is not None
        now = self._proxy.now()
        self._proxy.recorder.connected(self.pool, now - started_at)
        self._send_on(connection, now)

    def _no_head_in_time(self) -> None:
        self._timer = None
        assert self.load is not None
        address = self.load.endpoint.address
        self._drop_upstream()
        self._attempt_failed("timeout", f"{address} sent no response head in time")

    # -- after a failure

    def _attempt_failed(self, reason: str, message: str) -> None:
        """Ends an attempt that got no answer; tries another endpoint while that is allowed."""
        assert self.pool is not None
        self._end_attempt(reason)
        if self._may_retry(self.pool):
            self._retry()
        else:
            self._give_up(reason, message)

    def _give_up(self, reason: str, message: str) -> None:
        """Tells the client why the last attempt failed."""
        if reason == "timeout":
            self._refuse(Refusal.upstream(message, code="upstream_timeout", status=504))
        elif reason == "connect":
            self._refuse(Refusal.unavailable(message, code="endpoint_unreachable"))
        else:
            self._refuse(Refusal.upstream(message, code="upstream_failed"))

    def _goes_elsewhere(self, status: int) -> bool:
        """Drops an answer that says to try elsewhere, where another endpoint can be asked."""
        assert self.pool is not None
        if self._may_retry(self.pool):
            self._drop_upstream()
            self._end_attempt(f"status_{status}")
            self._retry()
            return True
        self._endpoint_failed(f"status_{status}")
        return False

    def _end_attempt(self, reason: str) -> None:
        assert self.load is not None
        assert self.pool is not None
        self._cancel_timer()
        load, self.load = self.load, None
        self._end_booking(self._proxy.now())
        self._proxy.attempt_failed(self.pool, load, reason)
        self._note_tried(load, reason, self.attempt_at)

    def _note_tried(self, load: EndpointLoad, reason: str, began_at: float) -> None:
        """Keeps what became of an attempt."""
        if self.failed_attempts is None:
            self.failed_attempts = []
        took_ms = int((self._proxy.now() - began_at) * 1e3 + 0.5)
        self.failed_attempts.append((load.endpoint.name, reason, took_ms))

    def _end_booking(self, now: float) -> None:
        if self.booking is not None:
            self.booking.end(now)
            self.booking = None
            if self._proxy.queues.held:
                self._room_made()

    def _room_made(self) -> None:
        """Another may go now, if any waits."""
        assert self.pool is not None
        if self.pool.queue is not None:
            self.pool.queue.room_made()

    def _may_retry(self, pool: PoolState) -> bool:
        """Whether the pool allows another attempt, has an endpoint that was not tried, and a retry to spare,
        which is spent. Its endpoints of now are meant: those of the request's arrival may be gone."""
        now = self._proxy.pools.get(pool.pool.key)
        if now is None:
            return False
        self.pool = now
        return bool(
            self.attempts <= self._proxy.retries(now)
            and self._is_another(now)
            and self._proxy.take_retry(now)
        )

    def _is_another(self, pool: PoolState) -> bool:
        return bool(self._proxy.candidates(pool, self._tried))

    def _retry(self) -> None:
        assert self.pool is not None
        interval_s = self.pool.pool.retry_interval_s
        if interval_s > 0:
            self._timer = self._proxy.loop.call_later(interval_s, self._attempt_after_interval)
        else:
            self._attempt(self._proxy.now())

    def _attempt_after_interval(self) -> None:
        self._timer = None
        if self._finds_pool("to be tried again"):
            self._attempt(self._proxy.now())

    def _finds_pool(self, waited_for: str) -> bool:
        """Goes on with the pool as it is now; where that is gone, the request is refused."""
        assert self.pool is not None
        key = self.pool.pool.key
        pool = self._proxy.pools.get(key)
        if pool is None:
            why = f"{key} was deleted while the request waited {waited_for}"
            self._refuse(Refusal.unavailable(why, code="no_ready_endpoint"))
            return False
        self.pool = pool
        return True

    def _endpoint_failed(self, reason: str) -> None:
        assert self.load is not None
        assert self.pool is not None
        self._proxy.attempt_failed(self.pool, self.load, reason)

    # -- what it holds

    def _drop_upstream(self) -> None:
        self._cancel_timer()
        if self._upstream is not None:
            self._upstream.abort()
            self._leave_upstream()
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None

    def _leave_upstream(self) -> None:
        if self._upstream is not None:
            self.bytes_out += self._upstream.passed_bytes
            self._upstream = None

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
