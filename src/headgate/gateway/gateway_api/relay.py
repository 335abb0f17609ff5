"""The response of an endpoint that a picker has picked: its head waits until the picker has seen it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

import httptools

from headgate.gateway.gateway_api import changes, picker_dialogue
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate import extproc
    from headgate.gateway.fast_path import FastPath
    from headgate.gateway.gateway_api.task import Task
    from headgate.gateway.upstream import UpstreamConnection
    from headgate.requests.client import Header

CHANGE_S: Final = 1.0
"""How long a response waits for the picker's changes."""
_LAST_STATUS: Final = 599


class Owner(Protocol):
    def served_by(self, status: int, headers: list[Header], endpoint: str) -> bool:
        """Tell the picker which endpoint has responded. Returns whether it answers."""
        ...

    def failed(self, refusal: Refusal) -> None:
        """There is no response."""

    def crossed(self) -> None:
        """The endpoint closed an idle connection just as it was used. Send the request again, once."""


class Relay:
    """Sends a request, and relays its response to the client."""

    def __init__(self, task: Task, owner: Owner) -> None:
        self._task = task
        self._owner = owner
        self._upstream: UpstreamConnection | None = None
        self._head: tuple[int, list[Header]] | None = None
        """A response head that waits for the picker."""
        self._held: list[bytes] = []
        """What arrived behind it."""
        self._is_complete = False
        """Whether the whole response arrived while its head waited."""
        self._response: changes.ResponseHead | None = None
        self._status = 0
        self._timer: asyncio.TimerHandle | None = None
        self.now = task.shared.services.now
        self.heard_at = self.now()

    @property
    def has_begun(self) -> bool:
        """Whether a part of the response was sent to the client."""
        return self._response is not None

    def send(self, connection: UpstreamConnection, payload: bytes, body: bytes) -> None:
        self._upstream = connection
        connection.send(self, payload, body)
        if self._task.client.is_paused:
            connection.pause_reading()

    def pause(self) -> None:
        if self._upstream is not None:
            self._upstream.pause_reading()

    def resume(self) -> None:
        if self._upstream is not None and self._head is None:
            self._upstream.resume_reading()

    # -- the response, as the upstream connection reports it

    def response_head(
        self, connection: UpstreamConnection, status: int, headers: list[Header], now: float
    ) -> None:
        """Raises HttpParserError for what cannot be forwarded."""
        if status > _LAST_STATUS:
            raise httptools.HttpParserError(f"{status} is not an HTTP status")
        self.heard_at = now
        # An early check, as the head is made later.
        made = self._made(status, headers)
        self._head = status, headers
        if self._task.head.method == b"HEAD":
            connection.abort()
            self._upstream, self._is_complete = None, True
        elif made.ends_with_connection:
            connection.ends_with_connection()
        if not self._owner.served_by(status, headers, self._task.endpoint):
            self.changed(None)
            return
        if self._upstream is not None:
            connection.pause_reading()
        self._timer = self._task.shared.services.loop.call_later(CHANGE_S, self.changed, None)

    def _made(self, status: int, headers: list[Header]) -> changes.ResponseHead:
        task = self._task
        return changes.ResponseHead(
            status,
            [*headers, *task.decision()],
            task.response_changes,
            is_http_1_0=task.head.is_http_1_0,
            is_head=task.head.method == b"HEAD",
            may_keep_alive=task.head.keep_alive and not task.shared.services.shutdown.is_leaving,
        )

    def changed(self, change: extproc.Mutation | None) -> None:
        """The picker has seen the head, or does not answer: forward it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._head is None:
            return
        (status, headers), self._head = self._head, None
        if change is not None:
            framing = [header for header in headers if header[0] in (b"content-length", b"transfer-encoding")]
            others = [header for header in headers if header not in framing]
            headers = [*framing, *picker_dialogue.changed(others, change)]
        self._status = status
        self._response = self._made(status, headers)
        held, self._held = self._held, []
        if self._task.client.is_paused or self._upstream is None:
            pass
        else:
            self._upstream.resume_reading()
        self._pass(b"".join(held))
        if self._is_complete:
            self._end(self.now())

    def _pass(self, data: bytes) -> None:
        task, response = self._task, self._response
        assert response is not None
        task.bytes_out += len(data)
        passed = response.pass_on(data, is_http_1_0=task.head.is_http_1_0)
        if passed:
            task.client.write(passed)

    def forward(self, data: bytes, now: float) -> None:
        self.heard_at = now
        if self._head is not None:
            self._held.append(data)
        else:
            self._pass(data)

    def fast_path(self, data: bytes) -> FastPath | None:
        return None

    def finished(self, now: float) -> None:
        self._upstream = None
        if self._head is not None:
            self._is_complete = True
        else:
            self._end(now)

    def _end(self, now: float) -> None:
        task, response = self._task, self._response
        assert response is not None
        task.served(self._status, now)
        task.client.exchange_done(response.keep_alive, now)

    def upstream_lost(self, connection: UpstreamConnection, message: str) -> None:
        if connection.reused and not connection.has_begun:
            self._upstream = None
            self._owner.crossed()
        else:
            self._lost(message)

    def upstream_broke(self, message: str) -> None:
        self._lost(message)

    def _lost(self, message: str) -> None:
        self._upstream = None
        logged = f"{self._task.endpoint} {message}"
        if self.has_begun:
            self.cut_off("upstream_lost", logged)
            return
        self.drop()
        told = "the endpoint failed before it responded"
        self._owner.failed(Refusal.upstream(told, code="upstream_failed", logged=logged))

    # -- ends

    def cut_off(self, outcome: str, message: str) -> None:
        """End a response of which a part was sent: a reset says that it is not complete."""
        self.drop()
        self._task.over(self._status, outcome, self.now(), message)
        self._task.client.abort()

    def drop(self) -> None:
        """Release all resources."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._head, self._held = None, []
        if self._upstream is not None:
            self._upstream.abort()
            self._upstream = None
