"""What the dashboard is given, and how often it asks for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from headgate.dashboard.models import Objects
from headgate.telemetry.sums import Family

SHARED_S: Final = 1.0
"""Answers are shared for so long, so that many viewers cost no more than one."""
MAX_SHARED: Final = 64

Answer = TypeVar("Answer")
Page = TypeVar("Page")


class Told(NamedTuple):
    """What the workers answered to one question."""

    bodies: Mapping[int, bytes]
    """By the process id of the worker."""
    silent: Sequence[str]
    """Why others are missing."""


class Workers(Protocol):
    """All worker processes of a gateway."""

    async def ask(self, path: str) -> Told:
        """Ask each worker for one of its pages."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """What is shown around each page: `version`, `address`, `is_ready`, `has_api_server` and `errors`."""
        ...

    async def families(self, names: Collection[str]) -> Sequence[Family]:
        """These metrics of all workers, summed. Workers are asked: reports come seconds apart."""
        ...

    async def objects(self) -> Objects:
        """Models, and what scales them, from the API server."""
        ...

    def urls(self) -> Sequence[Mapping[str, Any]]:
        """The `endpoints` of `/debug/objects`, if they do not come from an API server."""
        ...


class Pages(NamedTuple, Generic[Page]):
    """The same page of each worker, decoded."""

    of_workers: Mapping[int, Page]
    silent: Sequence[str]


class Shared:
    """Asks once for all who want to know the same within SHARED_S."""

    def __init__(self, workers: Workers, clock: Callable[[], float] = time.monotonic) -> None:
        self.workers = workers
        self._clock = clock
        self._asked: dict[str, tuple[float, asyncio.Task[Any]]] = {}

    async def pages(self, path: str, decoder: msgspec.json.Decoder[Page]) -> Pages[Page]:
        """A page of all workers."""

        async def ask() -> Pages[Page]:
            told = await self.workers.ask(path)
            found: dict[int, Page] = {}
            silent = list(told.silent)
            for worker, body in told.bodies.items():
                try:
                    found[worker] = decoder.decode(body)
                except msgspec.MsgspecError:
                    silent.append(f"process {worker} runs another version, whose answer cannot be read")
            return Pages(found, silent)

        return await self.get(path, ask)

    async def get(
        self, key: str, ask: Callable[[], Awaitable[Answer]], shared_s: float | None = None
    ) -> Answer:
        """The answer to `ask`, or one that is not older than `shared_s`, which is SHARED_S by default."""
        shared_s = SHARED_S if shared_s is None else shared_s
        now = self._clock()
        found = self._asked.get(key)
        if found is not None and now - found[0] < shared_s:
            task = found[1]
        else:
            if len(self._asked) >= MAX_SHARED:
                self._asked.clear()
            task = asyncio.ensure_future(_awaited(ask))
            self._asked[key] = now, task
        answer: Answer = await asyncio.shield(task)
        return answer


async def _awaited(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    return await ask()
