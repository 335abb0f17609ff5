"""A request that the gateway answers itself: with a redirect, or why it goes nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headgate.gateway import refusals
from headgate.requests.account import SERVED

if TYPE_CHECKING:
    from headgate.gateway.exchange import Exchange
    from headgate.gateway.gateway_api.task import Task
    from headgate.requests.refusal import Refusal

_AWAITED_BYTES: Final = 64 * 1024
"""A request body up to this size is discarded before the response; otherwise, the connection is closed."""


class Answered:
    """A response without a backend: a refusal, or a status with a location."""

    def __init__(
        self, task: Task, *, refusal: Refusal | None = None, status: int = 0, location: bytes = b""
    ) -> None:
        self._task = task
        self._refusal = refusal
        self._status = refusal.status if refusal is not None else status
        self._location = location

    @property
    def exchange(self) -> Exchange | None:
        return None

    def start(self, now: float) -> None:
        head = self._task.head
        if head.is_chunked or head.length > _AWAITED_BYTES:
            self._answer(now, keep_alive=False)

    def body(self, data: bytes) -> None:
        self._task.bytes_in += len(data)

    def body_ended(self, now: float) -> None:
        if not self._task.is_over:
            self._answer(now, keep_alive=self._task.head.keep_alive)

    def _answer(self, now: float, *, keep_alive: bool) -> None:
        task, refusal = self._task, self._refusal
        lines = b"x-request-id: %b\r\n" % task.request_id
        if self._location:
            lines += b"location: %b\r\n" % self._location
        lines += task.decision_lines("" if refusal is None else refusal.code)
        for change in task.response_changes:
            lines += b"".join(b"%b: %b\r\n" % header for header in change.apply(()))
        body = b"" if refusal is None else refusals.body(refusal, b"")
        is_head = task.head.method == b"HEAD"
        whole = refusals.head(
            self._status,
            len(body),
            content_type=b"" if is_head else b"application/json",
            keep_alive=keep_alive,
            lines=lines + (b"" if refusal is None else _lines(refusal)),
        )
        task.bytes_out = len(body)
        task.client.write(whole if is_head else whole + body)
        error = "" if refusal is None else refusal.log_message
        task.over(self._status, SERVED if refusal is None else refusal.code, now, error)
        task.client.exchange_done(keep_alive, now)

    def client_gone(self) -> None:
        self._task.gone(self._task.shared.services.now())

    def ended(self) -> None:
        pass

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def sweep(self, now: float) -> None:
        pass


def _lines(refusal: Refusal) -> bytes:
    after = b"" if refusal.retry_after_s is None else b"retry-after: %d\r\n" % refusal.retry_after_s
    return refusal.lines + after
