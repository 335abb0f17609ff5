"""A request to an endpoint of a Service: any method, path and content, in both directions as it arrives."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import httptools

from headgate.gateway import refusals, unreadable
from headgate.gateway.connections import ShortageError, why_unreachable
from headgate.gateway.gateway_api import changes, mirroring
from headgate.gateway.gateway_api.upload import StreamedBody, WholeBody
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.gateway.connections import EndpointConnections
    from headgate.gateway.exchange import Exchange
    from headgate.gateway.fast_path import FastPath
    from headgate.gateway.gateway_api.task import Task
    from headgate.gateway.upstream import UpstreamConnection
    from headgate.requests.client import Header
    from headgate.routing import Endpoint
    from headgate.routing.gateway_api import ServiceEndpoints

log = logging.getLogger(__name__)

MAX_ENDPOINTS: Final = 3
"""Endpoints that are tried until one accepts a connection."""
_LAST_STATUS: Final = 599
_WITHOUT_BODY: Final = frozenset({b"GET", b"HEAD", b"OPTIONS", b"DELETE", b"TRACE"})
"""Methods of requests whose head need not say that there is no body."""


class Proxied:
    """Forwards one request and its response."""

    def __init__(self, task: Task, service: ServiceEndpoints) -> None:
        assert task.entry is not None
        self._task = task
        self._service = service
        self._asked = changes.asked(task.head, task.entry, task.filters, task.client.peer)
        self._body = StreamedBody(task.client, is_chunked=task.head.is_chunked)
        self._whole: WholeBody | None = None
        """The body for an endpoint that speaks HTTP/2, instead of the other."""
        if service.http2:
            self._whole = WholeBody(task.shared.services.bodies)
        self._upstream: UpstreamConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._tried: list[Endpoint] = []
        self._response: changes.ResponseHead | None = None
        self._status = 0
        self._heard_at = task.arrived_at
        """When anything last arrived from either side."""
        self._mirrors = mirroring.begin(task, self._asked)
        task.begin_trace(self._asked.headers)
        self.now = task.shared.services.now

    # -- what the client's connection reports

    @property
    def exchange(self) -> Exchange | None:
        return None

    def start(self, now: float) -> None:
        rule, loop = self._task.entry.rule, self._task.shared.services.loop  # type: ignore[union-attr]
        waits = [each for each in (rule.request_timeout_s, rule.backend_timeout_s) if each is not None]
        if waits:
            self._timers.append(loop.call_later(min(waits), self._timed_out))
        if self._whole is None:
            self._attempt(now)

    def body(self, data: bytes) -> None:
        task = self._task
        if task.is_over:
            return
        task.bytes_in += len(data)
        self._heard_at = now = self.now()
        self._mirrors.add(data)
        if self._whole is None:
            self._body.add(data)
            return
        services = task.shared.services
        limit = services.settings.clients.max_body_bytes
        if not self._whole.add(data):
            self._refuse(services.bodies.refusal(), now)
        elif self._whole.size > limit:
            self._refuse(unreadable.too_large("body", limit, 413), now)

    def body_ended(self, now: float) -> None:
        self._mirrors.end()
        if self._whole is None:
            self._body.end()
        else:
            self._attempt(now)

    def client_gone(self) -> None:
        self._drop()
        self._task.gone(self.now())

    def ended(self) -> None:
        pass

    def pause(self) -> None:
        if self._upstream is not None:
            self._upstream.pause_reading()

    def resume(self) -> None:
        if self._upstream is not None:
            self._upstream.resume_reading()

    def sweep(self, now: float) -> None:
        idle_s = self._task.shared.services.settings.endpoints.stream_idle_timeout_s
        if now - self._heard_at <= idle_s:
            return
        if self._task.client.is_paused:
            self._cut_off("client_stalled", "the client reads nothing", now)
        else:
            self._timed_out()

    # -- attempts

    def _attempt(self, now: float) -> None:
        task, shared = self._task, self._task.shared
        endpoint = shared.balancer.pick(self._service, self._tried, now)
        if endpoint is None or len(self._tried) >= MAX_ENDPOINTS:
            if self._tried:
                told = "the gateway could not connect to an endpoint"
                self._refuse(Refusal.unavailable(told, code="endpoint_unreachable"), now)
            else:
                logged = f"{self._service.key} has no ready endpoint"
                told = "the backend has no ready endpoint"
                self._refuse(Refusal.unavailable(told, code="no_ready_endpoint", logged=logged), now)
            return
        self._tried.append(endpoint)
        task.endpoint, task.attempts = endpoint.address, task.attempts + 1
        connections = shared.connections_to(self._service, endpoint)
        connection = connections.take() if self._body.can_replay else None
        if connection is not None:
            self._send_on(connection)
        else:
            self._connecting = shared.services.background.spawn(self._connect(connections, endpoint))

    async def _connect(self, connections: EndpointConnections, endpoint: Endpoint) -> None:
        try:
            connection = await connections.connect()
        except Exception as error:
            self._connecting = None
            self._connect_failed(error, endpoint)
            return
        self._connecting = None
        if self._task.is_over:
            connections.keep(connection)
        else:
            self._send_on(connection)

    def _connect_failed(self, error: Exception, endpoint: Endpoint) -> None:
        now = self.now()
        if self._task.is_over:
            return
        if isinstance(error, ShortageError):
            self._refuse(Refusal.unavailable(str(error), code="gateway_exhausted"), now)
            return
        if not isinstance(error, OSError | ValueError):
            log.exception("connecting to %s", endpoint.address, exc_info=error)
        log.debug("%s %s", endpoint.address, why_unreachable(error))
        self._task.shared.balancer.failed(endpoint, now)
        self._attempt(now)

    def _send_on(self, connection: UpstreamConnection) -> None:
        head, whole = self._task.head, self._whole
        length = head.length if whole is None else whole.size
        if head.is_chunked and whole is None:
            framing = b"transfer-encoding: chunked\r\n"
        elif length or head.method not in _WITHOUT_BODY:
            framing = b"content-length: %d\r\n" % length
        else:
            framing = b""
        asked = self._asked._replace(headers=self._task.traced_headers(self._asked.headers, self.now()))
        payload = changes.forwarded(
            head.method, asked, self._task.client.peer, self._task.request_id, framing
        )
        self._upstream = connection
        if whole is None:
            self._body.send_to(connection.send_streamed(self, payload, self._body))
        else:
            connection.send(self, payload, whole.whole())
        if self._task.client.is_paused:
            connection.pause_reading()

    # -- the response, as the upstream connection reports it

    def response_head(
        self, connection: UpstreamConnection, status: int, headers: list[Header], now: float
    ) -> None:
        """Raises HttpParserError for what cannot be forwarded."""
        if status > _LAST_STATUS:
            raise httptools.HttpParserError(f"{status} is not an HTTP status")
        task = self._task
        self._heard_at, self._status = now, status
        is_head = task.head.method == b"HEAD"
        may_keep_alive = task.head.keep_alive and not task.shared.services.shutdown.is_leaving
        self._response = response = changes.ResponseHead(
            status,
            [*headers, *task.decision()],
            task.response_changes,
            is_http_1_0=task.head.is_http_1_0,
            is_head=is_head,
            may_keep_alive=may_keep_alive,
        )
        self._body.forget()
        if is_head:
            # llhttp would wait for the body that the headers describe.
            task.client.write(response.pass_on(b"", is_http_1_0=task.head.is_http_1_0))
            connection.abort()
            self._upstream = None
            self._end(now)
        elif response.ends_with_connection:
            connection.ends_with_connection()

    def forward(self, data: bytes, now: float) -> None:
        response, task = self._response, self._task
        assert response is not None
        self._heard_at = now
        passed = response.pass_on(data, is_http_1_0=task.head.is_http_1_0)
        task.bytes_out += len(data)
        if passed:
            task.client.write(passed)

    def fast_path(self, data: bytes) -> FastPath | None:
        return None

    def finished(self, now: float) -> None:
        self._upstream = None
        self._end(now)

    def _end(self, now: float) -> None:
        response, task = self._response, self._task
        assert response is not None
        self._drop()
        task.served(self._status, now)
        task.client.exchange_done(response.keep_alive, now)

    def upstream_lost(self, connection: UpstreamConnection, message: str) -> None:
        self._upstream = None
        now = self.now()
        if connection.reused and not connection.has_begun and self._body.can_replay:
            # It was idle, and the endpoint closed it just then: it did nothing.
            endpoint, shared = self._tried[-1], self._task.shared
            connections = shared.connections_to(self._service, endpoint)
            self._connecting = shared.services.background.spawn(self._connect(connections, endpoint))
            return
        self._broke_off(f"{self._task.endpoint} {message}", now)

    def upstream_broke(self, message: str) -> None:
        self._upstream = None
        self._broke_off(f"{self._task.endpoint}: {message}", self.now())

    # -- ends

    def _timed_out(self) -> None:
        now = self.now()
        if self._response is None:
            told = "no endpoint responded in time"
            self._refuse(Refusal.upstream(told, code="upstream_timeout", status=504), now)
        else:
            self._cut_off("upstream_timeout", "the response was not complete in time", now)

    def _broke_off(self, message: str, now: float) -> None:
        if self._response is None:
            told = "the endpoint failed before it responded"
            self._refuse(Refusal.upstream(told, code="upstream_failed", logged=message), now)
        else:
            self._cut_off("upstream_lost", message, now)

    def _refuse(self, refusal: Refusal, now: float) -> None:
        task = self._task
        self._drop()
        keep_alive = task.head.keep_alive and task.client.has_whole_body
        lines = task.decision_lines(refusal.code)
        whole = refusals.refused(refusal, b"", keep_alive=keep_alive, request_id=task.request_id, lines=lines)
        if task.head.method == b"HEAD":
            whole = whole[: whole.index(b"\r\n\r\n") + 4]
        task.client.write(whole)
        task.over(refusal.status, refusal.code, now, refusal.log_message)
        task.client.exchange_done(keep_alive, now)

    def _cut_off(self, outcome: str, message: str, now: float) -> None:
        """End a response of which a part was sent: a reset says that it is not complete."""
        self._drop()
        self._task.over(self._status, outcome, now, message)
        self._task.client.abort()

    def _drop(self) -> None:
        """Release all resources."""
        while self._timers:
            self._timers.pop().cancel()
        if self._upstream is not None:
            self._upstream.abort()
            self._upstream = None
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        self._body.drop()
        if self._whole is not None:
            self._whole.drop()
        self._mirrors.drop()
