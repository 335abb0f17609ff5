"""A worker: serves as its supervisor says, until that says to end or is gone."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import urllib.parse
from collections.abc import Collection, Coroutine, Mapping
from contextlib import suppress
from typing import Any

from starlette.applications import Starlette

from headgate import allocator, garbage
from headgate.flow.sharing import PoolReport
from headgate.gateway import pages
from headgate.gateway.service import Service
from headgate.requests.queueing.pending_report import Place
from headgate.telemetry import sums
from headgate.workers import channel as wire
from headgate.workers import messages
from headgate.workers.accounts import SupervisorTransport

COUNT_INTERVAL_S = 5.0
"""How often metrics are told unasked: what was counted since is lost if the worker is killed. And whoever
tells nothing for `workers.hang_s` seconds is taken to hang."""
LAST_WORDS_S = 1.0


async def run_worker(sock: socket.socket, begin: messages.Begin | None = None) -> None:
    """Serves until told to end, and until its requests have ended. Needs uvloop.

    Raises what keeps it from starting, after telling it to the supervisor at the other end of `sock`.
    """
    channel = await wire.to_supervisor(sock)
    try:
        begin = begin or await _first(channel)
        accounts = SupervisorTransport(channel.send, begin.workers) if begin.keeps_accounts else None
        service = Service(messages.known(begin.settings), begin.worker / begin.workers, accounts)
        try:
            worker = _Worker(channel, service, begin.listeners, accounts)
            if begin.shares_queues:
                service.shell.queues.share(Place(begin.workers, begin.worker), worker.tell_waiting)
            await worker.run()
        finally:
            if accounts is not None:
                accounts.is_heard = False
            await service.close()
            channel.send(messages.Counted(0, sums.families(service.registry)))
    except Exception as error:  # not by `except*`: Python 3.11.2 wraps what is raised there
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
    """Orders in, reports out."""

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
        """Tells the supervisor, or, while that is being replaced, its successor."""
        if self._is_hushed:
            self._unsaid.append(report)
        else:
            self._channel.send(report)

    def tell_waiting(self, reports: Mapping[str, PoolReport], gone: Collection[str]) -> bool:
        """To the supervisor, unless that reads nothing, or is being replaced; says whether it was told."""
        return not self._is_hushed and self._channel.send(messages.Waiting(dict(reports), list(gone)))

    async def _tell_counts(self) -> None:
        while True:
            hang_s = self._service.shell.settings.workers.hang_s
            interval_s = min(COUNT_INTERVAL_S, hang_s / 4) if hang_s else COUNT_INTERVAL_S
            self._changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), interval_s)
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
            # Nobody tells it any more. What runs may end, unless that was being waited for already.
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
            case messages.Quiesce():
                self._channel.send(messages.Hushed())
                self._is_hushed = True
                if self._accounts is not None:
                    self._accounts.is_hushed = True

    async def _let_go(self) -> None:
        """Of all listening sockets: as long as anybody has one, the kernel takes connections in for it."""
        await self._service.listen(())
        while self._listeners:
            os.close(self._listeners.pop())

    async def _drain(self, limit_s: float) -> None:
        self._is_draining = True
        # The supervisor has let go of its listening sockets: who is in their queues would be reset.
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
    """What an application says to a request that did not come over HTTP."""
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
    await app(scope, receive, send)
    headers = dict(sent[0]["headers"])
    body = b"".join(message.get("body", b"") for message in sent[1:])
    content_type = headers.get(b"content-type", b"").decode("latin-1")
    return messages.Answered(ask.id, sent[0]["status"], content_type, body)
