"""The signals of all workers, once or as a stream: adds up what each worker knows of each pool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from headgate.requests.pool_signals import Page, merged_by_pool
from headgate.workers.connection import NoAnswer

if TYPE_CHECKING:
    from headgate.workers.process import WorkerProcess
    from headgate.workers.supervisor import Supervisor

PATH = "/signals"
ANSWER_S = 1.0
INTERVAL_S = 1.0
MAX_WATCHES = 16
"""Streams at a time: one for each controller and for each person who looks."""

_decoder = msgspec.json.Decoder(Page)


class SignalsPage:
    """GET /signals, and with `?watch=1` a line of JSON once a second. A line also follows at once when
    requests begin to wait for a pool without endpoints."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._asking: asyncio.Task[bytes] | None = None
        self._watches = 0

    async def respond(self, request: Request) -> Response:
        watch = request.query_params.get("watch", "0")
        if watch in ("0", "false"):
            return Response(await self._fresh(), media_type="application/json")
        if watch not in ("1", "true"):
            return JSONResponse({"message": f"watch={watch[:64]!r}: 1 or 0 is needed"}, 400)
        if self._watches >= MAX_WATCHES:
            return JSONResponse({"message": f"{MAX_WATCHES} watches are open, which is the limit"}, 503)
        return StreamingResponse(self._lines(), media_type="application/x-ndjson")

    async def _lines(self) -> AsyncIterator[bytes]:
        self._watches += 1
        try:
            while True:
                starved = self._supervisor.workers.starved.next
                yield await self._fresh() + b"\n"
                with suppress(TimeoutError):
                    async with asyncio.timeout(INTERVAL_S):  # not wait_for, which may swallow a cancellation
                        await starved.wait()
        finally:
            self._watches -= 1

    async def _fresh(self) -> bytes:
        """The page, of figures that are no older than this call. Calls at the same time share a query."""
        if self._asking is not None:
            await asyncio.wait({self._asking})
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(self._asking)

    async def _ask(self) -> bytes:
        # A worker that is not ready yet has no requests.
        asked = [worker for worker in self._supervisor.workers if worker.reports.ready.is_set()]
        answers = await asyncio.gather(*(_page_of(worker) for worker in asked))
        pages = [each for each in answers if isinstance(each, Page)]
        page = Page(
            is_ready=bool(asked),
            pools=merged_by_pool(page.pools for page in pages),
            no_answer=sorted(each for each in answers if isinstance(each, str)),
        )
        return msgspec.json.encode(page)


async def _page_of(worker: WorkerProcess) -> Page | str:
    """The page of one worker, or why there is none."""
    try:
        answered = await worker.connection.ask("GET", PATH, "", b"", ANSWER_S)
    except NoAnswer as error:
        return str(error)
    if answered.status != 200:
        return f"worker {worker.slot} runs another version, which has no signals"
    try:
        return _decoder.decode(answered.body)
    except msgspec.MsgspecError as error:
        return f"worker {worker.slot} runs another version, whose signals cannot be read: {error}"
