"""A request to a pool: its body is read as a whole, and then it is a request like any other to this pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headgate.gateway import refusals, unreadable
from headgate.gateway.gateway_api import changes, mirroring
from headgate.gateway.gateway_api.picked import Picked
from headgate.gateway.gateway_api.pool_exchange import PoolExchange
from headgate.gateway.incoming import IncomingBody
from headgate.gateway.request import ParsedHead, Request
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    import asyncio

    from headgate.gateway.exchange import Exchange
    from headgate.gateway.gateway_api.relay import Relay
    from headgate.gateway.gateway_api.task import Task
    from headgate.requests.pool_state import PoolState

COPIES: Final = 3
"""Copies of a body while a picker is asked: its own, in messages to the picker, and in its answer."""
_AGAIN_S: Final = 1.0


class Pooled:
    """Collects the body, and hands the request to its exchange."""

    def __init__(self, task: Task, pool: PoolState) -> None:
        assert task.entry is not None
        self._task = task
        self._pool = pool
        self._body: IncomingBody | None = IncomingBody(task.shared.services.bodies)
        """None once it was handed over, or dropped."""
        self._held_bytes = 0
        """Of a body that was handed to a picker, as counted in the memory of bodies."""
        self._exchange: PoolExchange | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._asked = changes.asked(task.head, task.entry, task.filters, task.client.peer)
        self._mirrors = mirroring.begin(task, self._asked)
        self._picked: Picked | None = None
        """Serves the request, if the pool has a picker of its own."""

    @property
    def exchange(self) -> Exchange | None:
        return self._exchange

    def start(self, now: float) -> None:
        head, services = self._task.head, self._task.shared.services
        limit = services.settings.clients.max_body_bytes
        if head.method == b"HEAD":
            told = "a pool serves no HEAD requests"
            self._refuse(Refusal.method_not_allowed(told, b"GET, POST"), now)
        elif head.length > limit:
            self._refuse(unreadable.too_large("body", limit, 413), now)

    def body(self, data: bytes) -> None:
        body, services = self._body, self._task.shared.services
        if body is None:
            return
        body.add(data)
        self._task.bytes_in += len(data)
        self._mirrors.add(data)
        limit = services.settings.clients.max_body_bytes
        if body.size > limit:
            self._refuse(unreadable.too_large("body", limit, 413), services.now())
        elif body.memory.is_exceeded_by(body.size):
            self._refuse(body.memory.refusal(), services.now())

    def body_ended(self, now: float) -> None:
        body, task = self._body, self._task
        if body is None:
            return
        assert task.entry is not None
        self._body = None
        self._mirrors.end()
        rule, services = task.entry.rule, task.shared.services
        waits = [each for each in (rule.request_timeout_s, rule.backend_timeout_s) if each is not None]
        if waits:
            left_s = max(min(waits) - (now - task.arrived_at), 0.0)
            self._timer = services.loop.call_later(left_s, self._timed_out)
        whole = body.hand_over()
        if self._pool.pool.picker is None:
            self._begin(whole)
            return
        task.backend = self._pool.name
        memory = services.bodies
        self._held_bytes = COPIES * len(whole)
        memory.held += self._held_bytes - len(whole)
        if memory.is_exceeded_by(self._held_bytes):
            self._release()
            self._refuse(memory.refusal(), now)
            return
        self._picked = Picked(
            task, self._pool, self._asked, bytes(whole), lambda: self._begin_without_picker(whole)
        )
        self._picked.start()

    def _begin_without_picker(self, body: bytes | bytearray) -> None:
        self._picked = None
        self._task.shared.services.bodies.held -= self._held_bytes - len(body)
        self._held_bytes = 0  # its exchange counts it from here on
        self._begin(body)

    def _begin(self, body: bytes | bytearray) -> None:
        """Begin the exchange."""
        task, asked, services = self._task, self._asked, self._task.shared.services
        assert task.entry is not None
        head, rule = task.head, task.entry.rule
        headers = [header for header in asked.headers if header[0] != b"x-request-id"]
        headers.append((b"x-request-id", task.request_id))
        parsed = ParsedHead(
            head.method, asked.target, headers, head.is_http_1_0, task.client.peer, asked.host
        )
        parsed.identity = task.identity
        request = Request(parsed, body, head.keep_alive, task.arrived_at)
        task.is_over = True  # its exchange records it
        self._exchange = exchange = PoolExchange(
            services, task.client, request, self._pool, rule.as_route, task.response_changes
        )
        exchange.start(services.now())

    def _timed_out(self) -> None:
        services, exchange = self._task.shared.services, self._exchange
        self._timer = None
        if self._picked is not None:
            self._picked.timed_out()
        elif exchange is not None and not exchange.out_of_time(services.now()):
            self._timer = services.loop.call_later(_AGAIN_S, self._timed_out)

    def ended(self) -> None:
        """The exchange is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._mirrors.drop()
        self._release()
        if self._picked is not None:
            self._picked.ended()

    def _release(self) -> None:
        """Stop counting the body of a request to a picker."""
        self._task.shared.services.bodies.held -= self._held_bytes
        self._held_bytes = 0

    def client_gone(self) -> None:
        self._drop_body()
        picked, self._picked = self._picked, None
        self.ended()
        if picked is not None:
            picked.client_gone()
        elif self._exchange is None:
            self._task.gone(self._task.shared.services.now())
        elif not self._exchange.life.is_over:
            self._exchange.client_gone()

    @property
    def _relay(self) -> Relay | None:
        return self._picked.relay if self._picked is not None else None

    def pause(self) -> None:
        for each in (self._exchange, self._relay):
            if each is not None:
                each.pause()

    def resume(self) -> None:
        for each in (self._exchange, self._relay):
            if each is not None:
                each.resume()

    def sweep(self, now: float) -> None:
        if self._exchange is not None:
            self._exchange.sweep(now)
        relay, idle_s = self._relay, self._task.shared.services.settings.endpoints.stream_idle_timeout_s
        if relay is not None and now - relay.heard_at > idle_s and self._picked is not None:
            self._picked.timed_out()

    def _refuse(self, refusal: Refusal, now: float) -> None:
        task = self._task
        self._drop_body()
        self._mirrors.drop()
        keep_alive = task.head.keep_alive and task.client.has_whole_body
        whole = refusals.refused(
            refusal, self._asked.target, keep_alive=keep_alive, request_id=task.request_id
        )
        task.client.write(whole[: whole.index(b"\r\n\r\n") + 4] if task.head.method == b"HEAD" else whole)
        task.over(refusal.status, refusal.code, now, refusal.log_message)
        task.client.exchange_done(keep_alive, now)

    def _drop_body(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            body.drop()
