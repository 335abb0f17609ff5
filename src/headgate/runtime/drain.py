"""Waits until the engine has nothing to do: a preStop hook must not end before."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Literal

from headgate import engines
from headgate.runtime.engine import Engine, FetchError, is_down

Outcome = Literal["idle", "gone", "unknown", "late"]
"""The engine has no requests; it is not there; it does not show its requests; it still has some."""

INTERVAL_S: Final = 0.25
UNREADABLE_S: Final = 10.0
"""How long to look again at an engine whose page does not show requests."""
SILENT_S: Final = 60.0
"""How long an engine may not respond before it counts as gone: one that is busy may take long."""

log = logging.getLogger(__name__)


class Drain:
    """Watches the engine while somebody waits; all callers share one look at it."""

    def __init__(self, engine: Engine, *, quiet_s: float, max_s: float) -> None:
        """The engine counts as drained after `quiet_s` without requests; nobody waits longer than `max_s`."""
        self._engine = engine
        self._quiet_s = quiet_s
        self._max_s = max_s
        self._watching: asyncio.Task[Outcome] | None = None
        self.waiting = 0
        """Callers that wait."""

    async def wait(self) -> Outcome:
        """Return once the engine is idle or gone, or waiting is of no use any more."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
            self._watching.add_done_callback(self._done)
        watching = self._watching
        self.waiting += 1
        try:
            async with asyncio.timeout(self._max_s):
                return await asyncio.shield(watching)
        except TimeoutError:
            log.warning("the engine still has requests after %g s", self._max_s)
            return "late"
        finally:
            self.waiting -= 1
            if not self.waiting:
                watching.cancel()
                self._done(watching)  # at once: the next caller must not wait for it

    def _done(self, task: asyncio.Task[Outcome]) -> None:
        if self._watching is task:
            self._watching = None

    async def _watch(self) -> Outcome:
        clock = asyncio.get_running_loop().time
        judge = Judge(clock, self._quiet_s)
        while True:
            judge.see(await self._look())
            if judge.outcome is not None:
                return judge.outcome
            await asyncio.sleep(INTERVAL_S)

    async def _look(self) -> Look:
        try:
            response = await self._engine.look()
        except FetchError as error:
            if not is_down(error):
                return "silent"
            if self._engine.has_page_elsewhere and not await self._is_down():
                return "unreadable"
            return "refused"
        if response.status != 200:
            return "unreadable"
        names = self._engine.kind.metrics
        try:
            figures = engines.read(response.body, names) if names is not None else engines.Figures()
        except engines.PageTooLargeError:
            return "unreadable"
        if figures.running is None and figures.waiting is None:
            return "unreadable"
        return "busy" if (figures.running or 0) + (figures.waiting or 0) else "idle"

    async def _is_down(self) -> bool:
        """Whether nothing listens where the engine takes requests."""
        try:
            await self._engine.models()
        except FetchError as error:
            return is_down(error)
        return False


Look = Literal["idle", "busy", "refused", "silent", "unreadable"]
"""What one look at the engine showed: no requests, requests, no listener, no response, or a response without
numbers of requests."""


class Judge:
    """Decides from one look after another. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float], quiet_s: float) -> None:
        self._clock = clock
        self._ends: dict[Look, tuple[float, Outcome]] = {
            "idle": (quiet_s, "idle"),
            "refused": (quiet_s, "gone"),
            "silent": (SILENT_S, "gone"),
            "unreadable": (UNREADABLE_S, "unknown"),
        }
        self._look: Look | None = None
        self._since = 0.0
        self.outcome: Outcome | None = None

    def see(self, look: Look) -> None:
        """Set the outcome once the same look has lasted long enough."""
        now = self._clock()
        if look != self._look:
            self._look, self._since = look, now
        lasts_s, outcome = self._ends.get(look, (float("inf"), None))
        if now - self._since >= lasts_s:
            self.outcome = outcome
