"""A worker: serves by its supervisor's orders, until it is told to end or the supervisor is gone."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import urllib.parse
from collections.abc import Collection, Coroutine, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from starlette.applications import Starlette

from headgate import allocator, cluster, garbage
from headgate.flow.sharing import PoolReport
from headgate.gateway import pages
from headgate.gateway.service import Service
from headgate.requests.queueing.pending_report import Place
from headgate.telemetry import sums
from headgate.workers import channel as wire
from headgate.workers import messages
from headgate.workers.accounts import SupervisorTransport

log = logging.getLogger(__name__)

COUNT_INTERVAL_S = 5.0
"""How often metrics are reported unasked: counts since the last report are lost if the worker is killed. A
worker that reports nothing for `workers.hang_s` seconds is considered hung."""
LAST_WORDS_S = 1.0


async def run_worker(sock: socket.socket, begin: messages.Begin | None = None) -> None:
    """Serve until told to end, and until all requests have ended. Needs uvloop.

    An error that prevents the start is reported to the supervisor at the other end of `sock`, and raised.
    """
    channel = await wire.to_supervisor(sock)
    try:
        begin = begin or await _first(channel)
        accounts = SupervisorTransport(channel.send, begin.workers) if begin.keeps_accounts else None
        objects = cluster.LocalObjects() if begin.has_objects else None
        service = Service(messages.known(begin.settings), begin.worker / begin.workers, accounts, objects)
        try:
            worker = _Worker(channel, service, begin.listeners, accounts)
            if begin.shares_queues:
                service.shell.queues.share(Place(begin.workers, begin.worker), worker.tell_waiting)
            if begin.hears_starved:
                service.shell.queues.on_starved(worker.tell_starved)
            await worker.run()
        finally:
            if accounts is not None:
                accounts.is_heard = False
            await service.close()
            channel.send(messages.Counted(0, sums.families(service.registry)))
    except Exception as error:  # not `except*`: Python 3.11.2 wraps exceptions raised there
        found = [each for each in _leaves(error) if not isinstance(each, wire.Closed)]
        if found:
            channel.send(messages.Failed("; ".join(dict.fromkeys(str(each) or repr(each) for each in found))))
            raise
    finally:
        await channel.flush(LAST_WORDS_S)
        channel.close()


async def _first(channel: wire.Channel[messages.Order, messages.Report]) -> messages.Begin:
    order = await channel.receive()
    if not isinstance(order, messages.Begin):
        raise wire.Closed(f"it began with {order!r:.80}")
    return order


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for each in error.exceptions for leaf in _leaves(each)]


class _Worker:
    """Executes orders and sends reports."""

    def __init__(
        self,
        channel: wire.Channel[messages.Order, messages.Report],
        service: Service,
        listeners: list[int],
        accounts: SupervisorTransport | None,
    ) -> None:
        self._accounts = accounts
        self._channel = channel
        self._service = service
        self._listeners = listeners
        self._pages: Starlette = pages.admin_page(service.shell)
        self._is_hushed = False
        self._unsaid: list[messages.Report] = []
        self._ending: asyncio.Task[int] | None = None
        self._is_draining = False
        self._changed = asyncio.Event()
        """Set by new settings."""
        self._ended = asyncio.Event()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._say, messages.Leaving())
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                working = [
                    tasks.create_task(self._service.run(self._ready)),
                    tasks.create_task(self._tell_counts()),
                    tasks.create_task(self._obey()),
                    tasks.create_task(allocator.keep_returning()),
                ]
                await self._ended.wait()
                for task in working:
                    task.cancel()
        finally:
            loop.remove_signal_handler(signal.SIGTERM)

    def _ready(self) -> None:
        garbage.spare_what_there_is()
        allocator.return_large_blocks()
        self._say(messages.Ready())

    def _say(self, report: messages.Report) -> None:
        """Send a report to the supervisor, or to its successor if it is being replaced."""
        if self._is_hushed:
            self._unsaid.append(report)
        else:
            self._channel.send(report)

    def tell_waiting(self, reports: Mapping[str, PoolReport], gone: Collection[str]) -> bool:
        """Send to the supervisor, unless it is stuck or being replaced; return whether it was sent."""
        return not self._is_hushed and self._channel.send(messages.Waiting(dict(reports), list(gone)))

    def tell_starved(self) -> None:
        """Report that requests begin to wait for an endpoint."""
        if not self._is_hushed:
            self._channel.send(messages.Starved())

    async def _tell_counts(self) -> None:
        while True:
            hang_s = self._service.shell.settings.workers.hang_s
            interval_s = min(COUNT_INTERVAL_S, hang_s / 4) if hang_s else COUNT_INTERVAL_S
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(interval_s):  # not wait_for, which may swallow a cancellation
                    await self._changed.wait()
            if not self._is_hushed:
                self._channel.send(messages.Counted(0, sums.families(self._service.registry)))

    async def _obey(self) -> None:
        try:
            while True:
                order = await self._channel.receive()
                was_hushed, self._is_hushed = self._is_hushed, False
                if self._accounts is not None:
                    self._accounts.is_hushed = False
                while self._unsaid:
                    self._channel.send(self._unsaid.pop(0))
                if was_hushed:
                    self._service.shell.queues.share_anew()
                await self._do(order)
        except wire.Closed:
            # The supervisor is gone. Let requests finish, unless that was already in progress.
            if self._is_draining:
                self._ended.set()
            else:
                await self._drain(self._service.shell.settings.shutdown.drain_s)

    async def _do(self, order: messages.Order) -> None:
        shell = self._service.shell
        match order:
            case messages.Serve(listeners):
                await self._service.listen(listeners)
            case messages.Change(settings):
                self._service.change(messages.known(settings))
                self._changed.set()
            case messages.Leave():
                shell.leave()
            case messages.Retire(limit_s):
                await self._let_go()
                self._end(shell.retire(limit_s))
            case messages.Drain(limit_s):
                await self._drain(limit_s)
            case messages.Ask():
                self._say(await answer(self._pages, order))
            case messages.Count(number):
                self._say(messages.Counted(number, sums.families(self._service.registry)))
            case messages.Grants():
                if self._accounts is not None:
                    self._accounts.granted(order)
            case messages.Shares(pools):
                shell.queues.take_shares(pools)
            case messages.Objects(objects):
                if self._service.objects is not None:
                    self._service.objects.replace(objects)
            case messages.Quiesce():
                self._channel.send(messages.Hushed())
                self._is_hushed = True
                if self._accounts is not None:
                    self._accounts.is_hushed = True

    async def _let_go(self) -> None:
        """Close all listening sockets: the kernel accepts connections as long as any process has one open."""
        await self._service.listen(())
        while self._listeners:
            os.close(self._listeners.pop())

    async def _drain(self, limit_s: float) -> None:
        self._is_draining = True
        # The supervisor has closed its listening sockets: accept the connections in their queues, or they
        # would be reset.
        for _ in range(3):
            await asyncio.sleep(0)
        await self._let_go()
        self._end(self._service.shell.drain(limit_s))

    def _end(self, leaving: Coroutine[Any, Any, int]) -> None:
        if self._ending is not None:
            self._ending.cancel()
        self._ending = self._tasks.create_task(leaving)
        self._ending.add_done_callback(self._ended_by)

    def _ended_by(self, ending: asyncio.Task[int]) -> None:
        if not ending.cancelled():
            self._ended.set()


async def answer(app: Starlette, ask: messages.Ask) -> messages.Answered:
    """The response of an application to a request that did not come over HTTP. A page that fails, or that is
    too long for the channel, must not end the worker, which serves requests."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": ask.body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": ask.method,
        "scheme": "http",
        "path": urllib.parse.unquote(ask.path),
        "raw_path": ask.path.encode(),
        "query_string": ask.query.encode(),
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in ask.headers],
        "client": None,
        "server": None,
        "root_path": "",
    }
    try:
        await app(scope, receive, send)
    except Exception:
        log.exception("a page failed: %s", ask.path[:256])
        return _failed(ask, "the page failed: see the log of the gateway")
    headers = dict(sent[0]["headers"])
    body = b"".join(message.get("body", b"") for message in sent[1:])
    if len(body) > wire.MAX_CARRIED_BYTES:
        return _failed(
            ask, f"the page has {len(body)} bytes, more than the {wire.MAX_CARRIED_BYTES} that can be shown"
        )
    content_type = headers.get(b"content-type", b"").decode("latin-1")
    return messages.Answered(ask.id, sent[0]["status"], content_type, body)


def _failed(ask: messages.Ask, message: str) -> messages.Answered:
    return messages.Answered(ask.id, 500, "application/json", msgspec.json.encode({"message": message}))
