"""Waits until the engine has nothing to do: a preStop hook must not end before."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Literal

from headgate import engines
from headgate.runtime.engine import Engine, FetchError, is_down

Outcome = Literal["idle", "gone", "late"]

INTERVAL_S: Final = 0.25
BLIND_S: Final = 10.0
"""How long an engine may send nothing readable before it counts as gone. One that refuses connections is gone
after `QUIET_S`."""

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
        """Return once the engine is idle or gone, or it is too late."""
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
            response = await self._engine.page()
        except FetchError as error:
            return "refused" if is_down(error) else "blind"
        if response.status != 200:
            return "blind"
        names = self._engine.kind.metrics
        try:
            figures = engines.read(response.body, names) if names is not None else engines.Figures()
        except engines.PageTooLargeError:
            return "blind"
        if figures.running is None and figures.waiting is None:
            return "blind"
        return "busy" if (figures.running or 0) + (figures.waiting or 0) else "idle"


Look = Literal["idle", "busy", "refused", "blind"]
"""What one look at the engine showed: no requests, requests, no listener, or nothing readable."""


class Judge:
    """Decides from one look after another. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float], quiet_s: float, blind_s: float = BLIND_S) -> None:
        self._clock = clock
        self._quiet_s, self._blind_s = quiet_s, blind_s
        self._look: Look | None = None
        self._since = 0.0
        self.outcome: Outcome | None = None

    def see(self, look: Look) -> None:
        now = self._clock()
        if look != self._look:
            self._look, self._since = look, now
        lasted = now - self._since
        if look == "idle" and lasted >= self._quiet_s:
            self.outcome = "idle"
        elif (look == "refused" and lasted >= self._quiet_s) or (look == "blind" and lasted >= self._blind_s):
            self.outcome = "gone"
