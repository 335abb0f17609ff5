"""Send the requests of a plan at their times, whether or not earlier ones got a response.

This is an open loop: a slow server does not slow the arrivals down, and a request that has to wait in this
client, because too many are in flight, counts its times from when it was due. Only further turns of a
conversation wait for the response before them.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Protocol

import msgspec

from headgate.loadtest.plan.conversations import Conversation, Prompts
from headgate.loadtest.records import Tally
from headgate.loadtest.sending import Ask

Send = Callable[[Ask], Awaitable[str | None]]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a run does when the server is slower than the plan."""

    max_in_flight: Annotated[int, msgspec.Meta(ge=1)] = 1024
    drops: bool = False
    """Whether requests that are due while as many are in flight are dropped; otherwise they are sent late."""


class Stop(Protocol):
    """An asyncio.Event that ends a run."""

    def is_set(self) -> bool: ...
    async def wait(self) -> object: ...


class Places:
    """The requests that may be in flight; those that wait for a place get it in order."""

    def __init__(self, count: int) -> None:
        self.free = count
        self.in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def is_full(self) -> bool:
        return self.free == 0

    async def take(self) -> None:
        if self.free and not self._waiting:
            self.free -= 1
        else:
            waits = asyncio.get_running_loop().create_future()
            self._waiting.append(waits)
            try:
                await waits
            except asyncio.CancelledError:
                if waits.done() and not waits.cancelled():
                    self._pass_on()
                raise
        self.in_flight += 1

    def give_back(self) -> None:
        self.in_flight -= 1
        self._pass_on()

    def _pass_on(self) -> None:
        while self._waiting:
            waits = self._waiting.popleft()
            if not waits.done():
                waits.set_result(None)
                return
        self.free += 1


class Run:
    """One run of a plan against one server."""

    def __init__(
        self,
        plan: Sequence[Conversation],
        prompts: Prompts,
        send: Send,
        tally: Tally,
        limits: Limits,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._plan = plan
        self._prompts = prompts
        self._send = send
        self._tally = tally
        self._limits = limits
        self._now = now
        self.places = Places(limits.max_in_flight)
        self.began_s = 0.0
        self.sent = 0

    async def run(self, stop: Stop, began_s: float | None = None) -> None:
        """Send everything, and wait for the responses, or until the event is set.

        `began_s`: when the run begins, for several processes; now if None.
        """
        self.began_s = self._now() if began_s is None else began_s
        working = asyncio.ensure_future(self._work())
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            if not working.done():
                working.cancel()
            await asyncio.wait([working, stopping])
        if not working.cancelled():
            working.result()

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            for conversation in self._plan:
                due_s = self.began_s + conversation[0].request.at_s
                if (early_s := due_s - self._now()) > 0:
                    await asyncio.sleep(early_s)
                if self.places.is_full and self._limits.drops:
                    for turn in conversation:
                        self._tally.drop(turn.number, turn.request.at_s)
                    continue
                await self.places.take()
                group.create_task(self._converse(conversation, due_s))

    async def _converse(self, conversation: Conversation, due_s: float) -> None:
        """Send the turns of a conversation; it begins with a place."""
        said: list[str] = []
        before = None
        for turn in conversation:
            if before is not None:
                due_s = self._now() + (turn.request.think_s or 0.0)
                await asyncio.sleep(due_s - self._now())
                await self.places.take()
            said.append(self._prompts.text(turn, before))
            try:
                self.sent += 1
                is_last = turn is conversation[-1]
                answer = await self._send(Ask(turn, said, due_s, self.began_s, not is_last))
            finally:
                self.places.give_back()
            if answer is None:
                return
            said.append(answer)
            before = turn
