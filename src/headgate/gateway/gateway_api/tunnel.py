"""An upgrade to another protocol, such as WebSocket: after status 101, bytes pass in both directions.

Before that, nothing that the client sends reaches the backend, which would read it as a further request: one
that no rule has matched. If the backend answers otherwise, the connection ends with its response, as the
client's next bytes might belong to the protocol that it did not get.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, cast

import httptools

from headgate.gateway import authenticating, refusals
from headgate.gateway.connections import why_unreachable
from headgate.gateway.gateway_api import changes
from headgate.gateway.response_parser import ResponseParser
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.gateway.exchange import Exchange
    from headgate.gateway.gateway_api.task import Task
    from headgate.requests.client import Header
    from headgate.routing import Endpoint
    from headgate.routing.gateway_api import ServiceEndpoints

_SWITCHING: Final = 101
_FINAL: Final = 200
"""The first status that is not interim."""
_HEAD_END: Final = b"\r\n\r\n"
MAX_ENDPOINTS: Final = 3


class Tunnel:
    """One upgraded request. Also the protocol of its connection to the endpoint, which nobody shares."""

    def __init__(self, task: Task, service: ServiceEndpoints) -> None:
        assert task.entry is not None
        self._task = task
        self._service = service
        self._asked = changes.asked(task.head, task.entry, task.filters, task.client.peer)
        self._upstream: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._unsent: list[bytes] = []
        """The client's bytes before the backend agreed to the upgrade."""
        self._head = b""
        """The part of the response head so far."""
        self._interim_bytes = 0
        """Of interim responses, which count as part of the head: they could continue forever."""
        self._status = 0
        self._parser: ResponseParser | None = None
        """Finds the end of a response other than an upgrade."""
        self._response: changes.ResponseHead | None = None
        """That response, for the client."""
        self._heard_at = task.arrived_at

    # -- what the client's connection reports

    @property
    def exchange(self) -> Exchange | None:
        return None

    def start(self, now: float) -> None:
        self._connecting = self._task.shared.services.background.spawn(self._connect(now))

    async def _connect(self, now: float) -> None:
        task, shared = self._task, self._task.shared
        tried: list[Endpoint] = []
        why = "the backend has no ready endpoint"
        while len(tried) < MAX_ENDPOINTS:
            endpoint = shared.balancer.pick(self._service, tried, now)
            if endpoint is None:
                break
            tried.append(endpoint)
            task.endpoint, task.attempts = endpoint.address, len(tried)
            try:
                async with asyncio.timeout(shared.services.settings.endpoints.connect_timeout_s):
                    await shared.services.loop.create_connection(
                        lambda: cast(asyncio.Protocol, self), endpoint.host, endpoint.port
                    )
            except (OSError, TimeoutError) as error:
                shared.balancer.failed(endpoint, shared.services.now())
                why = f"{endpoint.address} {why_unreachable(error)}"
                continue
            self._connecting = None
            return
        self._connecting = None
        told = "the gateway could not connect to an endpoint"
        self._refuse(Refusal.unavailable(told, code="endpoint_unreachable", logged=why))

    def body(self, data: bytes) -> None:
        self._task.bytes_in += len(data)
        self._heard_at = self._task.shared.services.now()
        if self._status == _SWITCHING and self._upstream is not None:
            self._upstream.write(data)
        elif not self._status:
            self._unsent.append(data)
            self._task.client.pause_body()

    def body_ended(self, now: float) -> None:
        pass

    def ended(self) -> None:
        pass

    def client_gone(self) -> None:
        now = self._task.shared.services.now()
        if self._status == _SWITCHING:
            self._task.served(self._status, now)
        else:
            self._task.gone(now)
        self._drop()

    def pause(self) -> None:
        if self._upstream is not None and not self._upstream.is_closing():
            self._upstream.pause_reading()

    def resume(self) -> None:
        if self._upstream is not None and not self._upstream.is_closing():
            self._upstream.resume_reading()

    def sweep(self, now: float) -> None:
        task, services = self._task, self._task.shared.services
        if now - self._heard_at > services.settings.endpoints.stream_idle_timeout_s:
            task.client.abort()
        elif self._status == _SWITCHING and authenticating.why_over(services, task.identity, None):
            task.client.abort()  # nobody knows where a frame of its protocol ends

    # -- asyncio.Protocol, for the connection to the endpoint

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._upstream = upstream = cast(asyncio.Transport, transport)
        task = self._task
        framing = b"connection: upgrade\r\nupgrade: %b\r\n" % task.head.upgrade
        upstream.write(
            changes.forwarded(task.head.method, self._asked, task.client.peer, task.request_id, framing)
        )

    def data_received(self, data: bytes) -> None:
        task = self._task
        self._heard_at = task.shared.services.now()
        if task.is_over:
            return
        if self._status == _SWITCHING:
            task.bytes_out += len(data)
            task.client.write(data)
            return
        try:
            if self._status:
                self._pass(data)
            else:
                self._receive_head(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._broke_off(f"its response is not valid HTTP: {error}")

    def _receive_head(self, data: bytes) -> None:
        """Forward the response head, and what follows it, once it is complete."""
        self._head += data
        while (end := self._head.find(_HEAD_END)) >= 0:
            head, rest = self._head[: end + 4], self._head[end + 4 :]
            status, headers = _parsed(head)
            if status == _SWITCHING:
                self._switch(headers, rest)
                return
            if status >= _FINAL:
                self._refused(head, rest)
                return
            self._interim_bytes += len(head)
            self._head = rest
        limit = self._task.shared.services.settings.endpoints.max_response_head_bytes
        if self._interim_bytes + len(self._head) > limit:
            self._broke_off("its response head is too long")

    def _switch(self, headers: list[Header], rest: bytes) -> None:
        """The backend agrees."""
        task = self._task
        self._status = _SWITCHING
        kept = [header for header in headers if header[0] != b"connection"]
        for change in task.response_changes:
            kept = change.apply(kept)
        lines = b"".join(b"%b: %b\r\n" % header for header in kept)
        task.bytes_out += len(rest)
        task.client.write(
            b"%bconnection: upgrade\r\n%b\r\n%b" % (refusals.status_line(_SWITCHING), lines, rest)
        )
        unsent, self._unsent = self._unsent, []
        for data in unsent:
            if self._upstream is not None:
                self._upstream.write(data)
        task.client.resume_body()

    def _refused(self, head: bytes, rest: bytes) -> None:
        """The backend answers otherwise. What the client has sent behind its request is discarded."""
        task = self._task
        self._parser = parser = ResponseParser()
        parser.begin()
        found = parser.take_head(head, len(head))
        assert found is not None
        status, headers, _ = found
        is_head = task.head.method == b"HEAD"
        self._response = changes.ResponseHead(
            status, headers, task.response_changes, is_http_1_0=False, is_head=is_head, may_keep_alive=False
        )
        self._status = status
        self._unsent.clear()
        task.client.resume_body()
        self._pass(b"" if is_head else rest, is_last=is_head)

    def _pass(self, data: bytes, *, is_last: bool = False) -> None:
        """Forward a part of the response that is no upgrade."""
        task, parser, response = self._task, self._parser, self._response
        assert parser is not None
        assert response is not None
        if data:
            parser.feed(data)
        task.bytes_out += len(data)
        task.client.write(response.pass_on(data, is_http_1_0=False))
        if is_last or parser.is_complete:
            self._end()

    def _end(self) -> None:
        """The response is complete."""
        self._drop()
        self._task.served(self._status, self._task.shared.services.now())
        self._task.client.close()

    def pause_writing(self) -> None:
        self._task.client.pause_body()

    def resume_writing(self) -> None:
        self._task.client.resume_body()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._upstream = None
        if self._task.is_over:
            return
        if not self._status:
            self._broke_off("closed the connection")
            return
        if self._status == _SWITCHING or (self._response is not None and self._response.ends_with_connection):
            self._end()
        else:
            self._broke_off("closed the connection amid its response")

    # -- ends

    def _broke_off(self, why: str) -> None:
        told = "the endpoint failed before it responded"
        logged = f"{self._task.endpoint} {why}"
        if self._status:
            # A reset says that the response is not complete.
            self._drop()
            self._task.over(self._status, "upstream_lost", self._task.shared.services.now(), logged)
            self._task.client.abort()
            return
        self._refuse(Refusal.upstream(told, code="upstream_failed", logged=logged))

    def _refuse(self, refusal: Refusal) -> None:
        task, now = self._task, self._task.shared.services.now()
        if task.is_over:
            return
        self._drop()
        lines = task.decision_lines(refusal.code)
        whole = refusals.refused(refusal, b"", keep_alive=False, request_id=task.request_id, lines=lines)
        task.client.write(whole)
        task.over(refusal.status, refusal.code, now, refusal.log_message)
        task.client.close()

    def _drop(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        if self._upstream is not None:
            self._upstream.abort()
            self._upstream = None
        self._unsent.clear()
        if self._parser is not None:
            self._parser.close()


def _parsed(head: bytes) -> tuple[int, list[Header]]:
    """Status and headers with lower-case names. Raises HttpParserError."""
    parser = ResponseParser()
    parser.begin()
    first, _, rest = head.partition(b"\r\n")
    is_switch = first.startswith((b"HTTP/1.1 101", b"HTTP/1.0 101"))
    try:
        # The parser skips interim responses: read it as one that is none.
        text = b"HTTP/1.1 204 X\r\n" + rest if is_switch else head
        found = parser.take_head(text, len(head) + 64)
    finally:
        parser.close()
    if found is None:
        return 100, []
    return (_SWITCHING if is_switch else found[0]), found[1]
