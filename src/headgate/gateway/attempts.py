"""Attempts to bring a request to an endpoint, until one answers or none may be tried any more.

States follow one another: an endpoint is chosen, a connection to it taken or made, the request sent on it; an
attempt that fails before the answer's head is followed by another while the pool allows it, at once or after
an interval. What becomes of the answer is `Exchange`'s.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from typing import TYPE_CHECKING

from headgate import scheduling
from headgate.gateway import learning
from headgate.gateway.connections import ShortageError, why_unreachable
from headgate.gateway.decision import no_endpoint
from headgate.gateway.delivery import Delivery
from headgate.gateway.refusals import Refusal

if TYPE_CHECKING:
    from headgate.fleet import EndpointLoad
    from headgate.gateway.connections import EndpointConnections
    from headgate.gateway.pool_state import PoolState
    from headgate.gateway.upstream import UpstreamConnection

log = logging.getLogger(__name__)

RETRIED = frozenset({502, 503, 504})
"""Statuses by which an endpoint or a proxy before it says that another may do better."""


class Attempts(Delivery):
    """Comes to `_send_on` with each endpoint that it reaches, and to `_refuse` when there is none left."""

    __slots__ = ()

    @abstractmethod
    def _send_on(self, connection: UpstreamConnection, now: float) -> None:
        """The endpoint is reached: the payload goes to it."""

    @abstractmethod
    def _attempt_apart(self, pool: PoolState, now: float) -> None:
        """Sends the request to a pair of endpoints."""

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

    def _send_somewhere(self, pool: PoolState, now: float) -> None:
        scheduled = self.decision.scheduled
        if pool.pairs is not None or self.handover is not None:
            self._attempt_apart(pool, now)
            return
        self.attempt_at = now
        proxy, tried = self._proxy, self._tried
        most = proxy.settings.endpoints.max_connections
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
            self._attempt_failed("connect", why_unreachable(error))
            return
        self._connecting = None
        assert self.pool is not None
        now = self._proxy.now()
        self._proxy.recorder.connected(self.pool, now - started_at)
        self._send_on(connection, now)

    def _no_head_in_time(self) -> None:
        self._timer = None
        self._drop_upstream()
        self._attempt_failed("timeout", "sent no response head in time")

    # -- after a failure

    def _attempt_failed(self, reason: str, message: str) -> None:
        """Ends an attempt that got no answer; tries another endpoint while that is allowed.

        `message` says of the endpoint what it did, for the log.
        """
        assert self.pool is not None
        assert self.load is not None
        address = self.load.endpoint.address
        self._end_attempt(reason)
        if self._may_retry(self.pool):
            self._retry()
        else:
            self._give_up(reason, f"{address} {message}")

    def _give_up(self, reason: str, logged: str) -> None:
        """Tells the client that the last attempt failed, and the log what happened where."""
        if reason == "timeout":
            told, code = "no endpoint answered in time", "upstream_timeout"
            self._refuse(Refusal.upstream(told, code=code, status=504, logged=logged))
        elif reason == "connect":
            told, code = "no connection to an endpoint could be made", "endpoint_unreachable"
            self._refuse(Refusal.unavailable(told, code=code, logged=logged))
        else:
            told, code = "the endpoint failed before it answered", "upstream_failed"
            self._refuse(Refusal.upstream(told, code=code, logged=logged))

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
