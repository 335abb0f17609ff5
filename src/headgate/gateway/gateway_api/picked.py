"""A request to a pool whose endpoints another picker picks, by Envoy's external processing protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from headgate import extproc, rpc
from headgate.gateway import refusals
from headgate.gateway.connections import Reached, ShortageError, why_unreachable
from headgate.gateway.gateway_api import changes, picker_dialogue
from headgate.gateway.gateway_api.picker_dialogue import Dialogue, PickerError, Refused
from headgate.gateway.gateway_api.relay import Relay
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.gateway.connections import EndpointConnections
    from headgate.gateway.gateway_api.changes import Asked
    from headgate.gateway.gateway_api.task import Task
    from headgate.gateway.upstream import UpstreamConnection
    from headgate.requests.pool_state import PoolState
    from headgate.routing import Endpoint

PICK_S: Final = 75.0
"""Time for an answer: pickers may queue requests for a minute."""
PARTING_S: Final = 5.0
"""Time for a picker to end its stream once the response is complete: then it is cancelled."""
_INTERNAL: Final = 500
_WITHOUT_BODY: Final = (204, 304)


Answer: TypeAlias = "picker_dialogue.Picked | Refused | str"
"""Where the request goes, a response of the picker, or why it has not answered. (An exception would refer to
the request until the next garbage collection.)"""


class Picked:
    """Asks the picker, sends the request to an endpoint of its answer, and relays the response."""

    def __init__(
        self, task: Task, pool: PoolState, asked: Asked, body: bytes, fall_back: Callable[[], None]
    ) -> None:
        """`fall_back` serves the request without the picker."""
        self._task = task
        self._pool = pool
        self._asked = asked
        self._body = body
        self._fall_back: Callable[[], None] | None = fall_back
        self._dialogue = Dialogue(task.shared.services.settings.clients.max_body_bytes)
        self._call: rpc.ClientCall | None = None
        self._answer: asyncio.Future[Answer] | None = None
        """Set while the picker is asked about the request."""
        self._running: asyncio.Task[None] | None = None
        self._relay: Relay | None = None
        """The exchange with an endpoint."""
        self._sent: tuple[bytes, bytes, Endpoint] | None = None
        """Head, body and endpoint of a request that has no response yet."""

    def start(self) -> None:
        self._running = self._task.shared.services.background.spawn(self._run())

    async def _run(self) -> None:
        try:
            async with asyncio.timeout(PICK_S):
                answer = await self._ask()
        except TimeoutError:
            answer = "it did not answer in time"
        self._answer = None
        if isinstance(answer, str):
            self._picker_failed(answer)
        elif isinstance(answer, Refused):
            self._refused(answer)
        else:
            await self._send(answer)

    # -- the picker

    async def _ask(self) -> Answer:
        """The picker's answer."""
        task, shared, asked = self._task, self._task.shared, self._asked
        picker = self._pool.pool.picker
        assert picker is not None
        if picker.fault:
            return picker.fault
        service = shared.picker_of(self._pool.pool)
        if service is None:
            return f"there is no Service {picker.name} with port {picker.port}"
        client = await shared.pickers.client(service, task.shared.services.now())
        if isinstance(client, str):
            return client
        self._answer = asyncio.get_running_loop().create_future()
        try:
            self._call = call = client.call(extproc.PATH, self)
        except rpc.CallError as error:
            return error.message
        scheme = task.client.scheme
        headers = [header for header in asked.headers if header[0] not in (b"host", b"expect")]
        for message in self._dialogue.begin(
            task.head.method, asked.target, asked.host, scheme, headers, self._body
        ):
            call.send(message)
        return await self._answer

    def message(self, data: bytes) -> None:
        """The picker sent something."""
        try:
            if self._answer is not None and not self._answer.done():
                answer = self._dialogue.heard(data)
                if answer is not None:
                    self._answer.set_result(answer)
            elif self._relay is not None:
                change = picker_dialogue.response_change(data)
                if change is not None:
                    self._relay.changed(change)
        except PickerError as error:
            self._fail_answer(str(error))
            if self._relay is not None:
                self._relay.changed(None)

    def closed(self, status: rpc.Status) -> None:
        """The picker's stream has ended."""
        self._call = None
        self._fail_answer(f"it ended its stream: {status.message or status.code}")
        if self._relay is not None:
            self._relay.changed(None)

    def _fail_answer(self, why: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(why)

    def _picker_failed(self, why: str) -> None:
        """Pick without it, or refuse the request: the pool says which."""
        pool = self._pool.pool
        assert pool.picker is not None
        self._end_call()
        self._task.shared.pickers.note_failure(str(pool.key), why, self._task.shared.services.now())
        if pool.picker.fails_open and not pool.picker.fault and self._fall_back is not None:
            self._task.shared.metrics.picker_failed(pool.name, "open")
            fall_back, self._fall_back = self._fall_back, None
            fall_back()
            return
        self._task.shared.metrics.picker_failed(pool.name, "closed")
        told, logged = "the endpoint picker of this pool cannot be asked", f"the picker of {pool.key}: {why}"
        self._refuse(
            Refusal(status=_INTERNAL, type="server_error", code="picker_failed", message=told, logged=logged)
        )

    # -- the endpoint

    async def _send(self, answer: picker_dialogue.Picked) -> None:
        """Send the request to the first endpoint that can be reached."""
        task = self._task
        body = self._body if answer.body is None else answer.body
        headers = picker_dialogue.changed(self._asked.headers, answer.change)
        asked = self._asked._replace(headers=headers)
        self._body = b""
        reachable = [each for text in answer.addresses if (each := self._endpoint(text)) is not None]
        why = f"the picker named no endpoint of the pool, but {', '.join(answer.addresses)[:256]!r}"
        for endpoint in reachable:
            task.endpoint, task.attempts = endpoint.address, task.attempts + 1
            try:
                connection = await self._connected(endpoint)
            except (OSError, ValueError, ShortageError) as error:
                why = f"{endpoint.address} {why_unreachable(error)}"
                continue
            framing = b"content-length: %d\r\n" % len(body) if body or task.head.has_body else b""
            payload = changes.forwarded(task.head.method, asked, task.client.peer, task.request_id, framing)
            self._relay = relay = Relay(task, self)
            self._sent = payload, body, endpoint
            relay.send(connection, payload, body)
            return
        told = "no endpoint can be reached"
        self._refuse(Refusal.unavailable(told, code="endpoint_unreachable", logged=why))

    def crossed(self) -> None:
        """The endpoint closed an idle connection just as it was used: it did nothing."""
        self._running = self._task.shared.services.background.spawn(self._send_afresh())

    async def _send_afresh(self) -> None:
        relay = self._relay
        assert relay is not None
        assert self._sent is not None
        payload, body, endpoint = self._sent
        try:
            connection = await self._connections(endpoint).connect()
        except (OSError, ValueError, ShortageError) as error:
            logged, told = f"{endpoint.address} {why_unreachable(error)}", "no endpoint can be reached"
            self._refuse(Refusal.unavailable(told, code="endpoint_unreachable", logged=logged))
            return
        relay.send(connection, payload, body)

    def _endpoint(self, address: str) -> Endpoint | None:
        """The pool's endpoint with this address; others are not asked, whatever a picker says: they could be
        anything inside the network."""
        for endpoint in self._pool.pool.endpoints:
            if endpoint.address == address:
                return endpoint
        return None

    def _connections(self, endpoint: Endpoint) -> EndpointConnections:
        pool = self._pool.pool
        return self._task.shared.services.connections.to(Reached(endpoint, pool.tls, pool.http2))

    async def _connected(self, endpoint: Endpoint) -> UpstreamConnection:
        connections = self._connections(endpoint)
        return connections.take() or await connections.connect()

    def served_by(self, status: int, headers: list[tuple[bytes, bytes]], endpoint: str) -> bool:
        """Tell the picker which endpoint has responded. Returns whether it answers."""
        self._sent = None
        if self._call is None or self._call.is_closed:
            return False
        self._call.send(picker_dialogue.response_message(status, headers, endpoint))
        return True

    # -- ends

    def _refused(self, answer: Refused) -> None:
        """Pass on the picker's own response."""
        task, now = self._task, self._task.shared.services.now()
        # Clients expect no body with some statuses: they would take it for the next response.
        body = b"" if answer.status in _WITHOUT_BODY else answer.body
        keep_alive = task.head.keep_alive
        lines = b"".join(b"%b: %b\r\n" % header for header in answer.headers if header[0] != b"content-type")
        kinds = [value for name, value in answer.headers if name == b"content-type"]
        head = refusals.head(
            answer.status,
            len(body),
            content_type=kinds[-1] if kinds else b"text/plain",
            keep_alive=keep_alive,
            lines=b"x-request-id: %b\r\n" % task.request_id + lines,
        )
        self._end_call()
        task.bytes_out = len(body)
        task.client.write(head + body)
        told = answer.body[:256].decode("utf-8", "replace")
        task.over(answer.status, "picker_refused", now, f"the picker answered: {told}")
        task.client.exchange_done(keep_alive, now)

    def _refuse(self, refusal: Refusal) -> None:
        task, now = self._task, self._task.shared.services.now()
        if task.is_over:
            return
        self._end_call()
        keep_alive = task.head.keep_alive
        whole = refusals.refused(
            refusal,
            self._asked.target,
            keep_alive=keep_alive,
            request_id=task.request_id,
            lines=task.decision_lines(refusal.code),
        )
        task.client.write(whole)
        task.over(refusal.status, refusal.code, now, refusal.log_message)
        task.client.exchange_done(keep_alive, now)

    def failed(self, refusal: Refusal) -> None:
        """The endpoint failed before it responded."""
        self._refuse(refusal)

    def timed_out(self) -> None:
        """The rule's timeout is over."""
        if self._relay is not None and self._relay.has_begun:
            self._relay.cut_off("upstream_timeout", "the response was not complete in time")
            return
        self._stop()
        self._refuse(Refusal.upstream("no endpoint responded in time", code="upstream_timeout", status=504))

    def _end_call(self) -> None:
        """The picker hears no more about the request."""
        call, self._call = self._call, None
        if call is not None:
            call.cancel()

    def _stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            self._running = None
        if self._relay is not None:
            self._relay.drop()

    def ended(self) -> None:
        """The response was written."""
        call, self._call = self._call, None
        if call is not None and not call.is_closed:
            call.half_close()
            call.expire_in(PARTING_S)
        self._release()

    def _release(self) -> None:
        """Break the cycles of references."""
        self._fall_back = self._relay = self._running = None

    def client_gone(self) -> None:
        self._stop()
        self._end_call()
        self._release()
        self._task.gone(self._task.shared.services.now())

    @property
    def relay(self) -> Relay | None:
        return self._relay
