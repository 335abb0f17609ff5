"""Attempts to bring a request to an endpoint, until one answers or none may be tried any more.

States follow one another: an endpoint is chosen, a connection to it taken or made, the request sent on it; an
attempt that fails before the answer's head is followed by another while the pool allows it, at once or after
an interval. What becomes of the answer is `Exchange`'s.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from headgate import scheduling
from headgate.fleet import Suspects, adapters, blame
from headgate.gateway import learning
from headgate.gateway.connections import ShortageError, why_unreachable
from headgate.gateway.delivery import Delivery
from headgate.requests.decision import no_endpoint
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.fleet import EndpointState, ModelPath, Suspect
    from headgate.gateway.connections import EndpointConnections
    from headgate.gateway.upstream import UpstreamConnection
    from headgate.requests.pool_state import PoolState

log = logging.getLogger(__name__)

LATE_S = 0.05
_NOT_FOUND = 404
_SERVER_ERROR = 500
_CREDENTIALS = (b"authorization", b"x-api-key", b"api-key")


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
        choice = None
        if lacking := self._passed_over(pool, now):
            passed_over = [*tried, *lacking]
            choice = scheduling.pick(pool.policy, scheduled, pool.loads, now, proxy.rng, passed_over, most)
        if choice is None:
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
        is_telling = cached_tokens >= learning.MIN_TOKENS
        self.prefix_used_at = proxy.prefixes.used_at(scheduled.prefix, load) if is_telling else None
        pool.policy.booked(scheduled, choice, now)
        if proxy.kv_events.sources:
            proxy.kv_events.sent(scheduled, self.decision.body, choice, now)
        self._ask(pool, load, now)

    def _ask(self, pool: PoolState, load: EndpointState, now: float) -> None:
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
        assert self.pool is not None
        assert self.load is not None
        self._connecting = self._proxy.spawn(self._connect(connections, self.pool, self.load))

    async def _connect(self, connections: EndpointConnections, pool: PoolState, load: EndpointState) -> None:
        """Connects to an endpoint. If that takes long, the request goes to another meanwhile, and what comes
        of the connection tells only of the endpoint."""
        proxy = self._proxy
        started_at = proxy.now()
        long_s = pool.evidence.connects.long_s(started_at)
        timer = None
        if long_s is not None:
            due_at = started_at + long_s
            timer = proxy.loop.call_later(long_s, self._connects_slowly, asyncio.current_task(), due_at)
        try:
            connection = await connections.connect()
        except ShortageError as error:
            if self.load is not load:
                return
            self._connecting = None
            self._refuse(Refusal.unavailable(str(error), code="gateway_exhausted"))
            return
        except Exception as error:
            # A host that cannot even be encoded is a ValueError. Anything else is a fault of ours, and the
            # client must not wait for ever for it.
            if not isinstance(error, OSError | ValueError):
                log.exception("connecting to %s", connections.endpoint.address)
            if isinstance(error, ConnectionRefusedError):
                proxy.engine_restarted(load)  # its process has ended, and its cache with it
            if self.load is not load:
                proxy.health.failed(pool, load, "connect", proxy.now())
                return
            self._connecting = None
            self._attempt_failed("connect", why_unreachable(error))
            return
        finally:
            if timer is not None:
                timer.cancel()
        now = proxy.now()
        proxy.recorder.connected(pool, now - started_at)
        pool.evidence.connects.note(now - started_at)
        if self.load is not load:
            connections.keep(connection)
            return
        self._connecting = None
        self._send_on(connection, now)

    def _connects_slowly(self, connecting: asyncio.Task[None] | None, due_at: float) -> None:
        """A new connection takes suspiciously long: another endpoint is asked, while it goes on. If this call
        is late, the gateway itself was busy, and the connection may have been made meanwhile: look again."""
        if self._connecting is None or self._connecting is not connecting:
            return
        assert self.pool is not None
        assert self.load is not None
        pool, load, now = self.pool, self.load, self._proxy.now()
        if now - due_at > LATE_S:
            self._proxy.loop.call_later(LATE_S, self._connects_slowly, connecting, now + LATE_S)
        elif self._may_retry(pool):
            self._connecting = None
            load.suspected(now)
            self._go_elsewhere("slow_connect")

    def _stopped(self, now: float) -> None:
        """Nothing at all is heard of the endpoint, and nothing of a response has come: another is asked, if
        that may be. Else the request goes on waiting."""
        pool, load = self.pool, self.load
        assert pool is not None
        assert load is not None
        may_retry = not self._has_response_begun() and self._may_retry(pool)
        self._proxy.health.hangs(pool, load, now)
        if may_retry:
            self._go_elsewhere("hang")

    def _go_elsewhere(self, reason: str) -> None:
        """Leaves the endpoint for another; a retry was granted."""
        assert self.pool is not None
        self._drop_upstream()
        self._end_attempt(reason)
        self._proxy.recorder.attempt_failed(self.pool, reason)
        self._retry()

    def _no_head_in_time(self) -> None:
        self._timer = None
        has_begun = self._has_response_begun()
        self._drop_upstream()
        self._attempt_failed("timeout", "sent no response head in time", has_begun=has_begun)

    def _has_response_begun(self) -> bool:
        """Whether a part of a response head has come. The endpoint may have done the work: nobody else is
        asked to do it again."""
        return self._upstream is not None and self._upstream.has_begun

    # -- after a failure

    def _attempt_failed(self, reason: str, message: str, *, has_begun: bool = False) -> None:
        """Ends an attempt that got no answer; tries another endpoint while that is allowed, and unless a
        response had begun.

        `message` says of the endpoint what it did, for the log.
        """
        assert self.pool is not None
        assert self.load is not None
        load, address = self.load, self.load.endpoint.address
        self._end_attempt(reason)
        self._proxy.health.attempt_failed(self.pool, load, reason, self._proxy.now())
        if not has_begun and self._may_retry(self.pool):
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

    def _goes_elsewhere(self, status: int, rest_s: float | None, now: float) -> bool:
        """Drops a rejection that may be the endpoint's own fault, where another endpoint can be asked. The
        response of that one tells whose fault it was. `rest_s` is how long it wants no requests."""
        pool, load = self.pool, self.load
        assert pool is not None
        assert load is not None
        back_at = None if rest_s is None else self._proxy.health.rests(pool, load, rest_s, now)
        suspects = self.suspects = self.suspects or Suspects()
        is_alone = not suspects.are_open and not self._proxy.retries(pool)
        key, may_retry = partial(self._shared_key, status), partial(self._may_retry, pool)
        is_retried, failed = suspects.rejected(
            load, status, back_at, pool.evidence.shared, key, may_retry, now
        )
        self._blame(failed)
        if is_retried:
            self._go_elsewhere(f"status_{status}")
        elif status in blame.UNAVAILABLE:
            self._proxy.recorder.attempt_failed(pool, f"status_{status}")
        elif is_alone and status >= _SERVER_ERROR:
            self._proxy.health.disappointed(pool, load, f"status_{status}", now)
        return is_retried

    def _goes_where_adapter_is(self, adapter: str, now: float) -> bool:
        """Drops a 404 for an adapter, where another endpoint may have it; this one is well, and lacks it."""
        pool, load = self.pool, self.load
        assert pool is not None
        assert load is not None
        load.lacks(adapter, now)
        self._proxy.scraper.list_models_soon(load)
        others = self._proxy.candidates(pool, self._tried)
        is_elsewhere = any(adapters.place(other, adapter) != "unknown" for other in others)
        if not is_elsewhere or not self._may_retry(pool, blame.RESERVED):
            return False
        self._go_elsewhere("status_404")
        return True

    def _suspect(
        self,
        load: EndpointState,
        status: int,
        now: float,
        back_at: float | None = None,
        *,
        is_prefill: bool = False,
    ) -> None:
        """The rejection may be the endpoint's own fault: the response of another will tell."""
        if self.suspects is None:
            self.suspects = Suspects()
        self.suspects.add(load, status, now, back_at, is_prefill=is_prefill)

    def _blame(self, suspects: Iterable[Suspect]) -> None:
        """Counts the failures of endpoints that were found to be at fault."""
        pool, now = self.pool, self._proxy.now()
        assert pool is not None
        for each in suspects:
            is_lack = each.status == _NOT_FOUND
            if not (is_lack and pool.evidence.not_found(each.load, self._asked(), now)):
                self._proxy.health.failed(pool, each.load, each.reason, now)

    def _passed_over(self, pool: PoolState, now: float) -> list[EndpointState]:
        """Endpoints that rejected requests of the like, while others may serve them."""
        evidence = pool.evidence
        lacking = pool.not_serving(self._asked(), now) if evidence.unserved_until > now else []
        if evidence.shared.alone_until > now:
            lacking += evidence.shared.alone_with(self._shared_keys(), now)
        return lacking

    def _asked(self) -> ModelPath:
        return self.decision.upstream_model, self.request.path

    def _is_open(self, pool: PoolState, status: int, now: float, *, is_shared: bool) -> bool:
        """Whether another endpoint's response to the request would tell more of the status."""
        return pool.evidence.shared.is_open(
            status, partial(self._shared_key, status), now, is_shared=is_shared
        )

    def _shared_keys(self) -> Iterator[tuple[object, ...]]:
        """Those of all rejections that say nothing of an endpoint."""
        return (self._shared_key(status) for status in blame.LIKELY_SHARED)

    def _shared_key(self, status: int) -> tuple[object, ...]:
        """What a rejection by all endpoints depends on; of credentials only a hash is kept."""
        if status == _NOT_FOUND:
            return status, *self._asked()
        return status, hash(tuple(self.request.header(name) for name in _CREDENTIALS))

    def _end_attempt(self, reason: str) -> None:
        """Leaves the endpoint; who is to blame is the caller's."""
        assert self.load is not None
        self._cancel_timer()
        load, self.load = self.load, None
        self._end_booking(self._proxy.now())
        self._note_tried(load, reason, self.attempt_at)

    def _note_tried(self, load: EndpointState, reason: str, began_at: float) -> None:
        """Keeps what became of an attempt."""
        if self.failed_attempts is None:
            self.failed_attempts = []
        took_ms = int((self._proxy.now() - began_at) * 1e3 + 0.5)
        self.failed_attempts.append((load.endpoint.name, reason, took_ms))

    def _may_retry(self, pool: PoolState, reserved: float = 0.0) -> bool:
        """Whether the pool allows another attempt, has an endpoint that was not tried, and a retry to spare
        besides those reserved, which is spent. Its endpoints of now are meant: those of the request's arrival
        may be gone."""
        now = self._proxy.pools.get(pool.pool.key)
        if now is None:
            return False
        self.pool = now
        return bool(
            self.attempts <= self._proxy.retries(now)
            and self._is_another(now)
            and self._proxy.take_retry(now, reserved)
        )

    def _is_another(self, pool: PoolState) -> bool:
        now = self._proxy.now()
        return any(load.resting_until <= now for load in self._proxy.candidates(pool, self._tried))

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
        self._proxy.health.attempt_failed(self.pool, self.load, reason, self._proxy.now())

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
