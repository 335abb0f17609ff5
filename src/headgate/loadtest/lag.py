"""How busy this client is itself: the CPU that it needs, and how late its event loop is."""

from __future__ import annotations

import asyncio
import time

import msgspec

from headgate.loadtest.histogram import Histogram

_TICK_S = 0.02
_TICKS_PER_UPDATE = 25
BUSY = 0.8
"""Share of a core from which on a client is too busy to measure well."""
LATE_S = 0.01


class Burden(msgspec.Struct, kw_only=True):
    """What a run cost one client process."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    late: Histogram = msgspec.field(default_factory=Histogram)
    """How late the event loop woke up, measured all the time."""

    @property
    def share(self) -> float:
        """Of a core."""
        return self.cpu_s / self.wall_s if self.wall_s else 0.0


class Watch:
    """Measures the burden of this process while it is entered."""

    def __init__(self) -> None:
        self.burden = Burden()

    async def __aenter__(self) -> Burden:
        self._began_s, self._began_cpu_s = time.perf_counter(), time.process_time()
        self._ticking = asyncio.ensure_future(self._tick())
        return self.burden

    async def __aexit__(self, *_: object) -> None:
        self._ticking.cancel()
        await asyncio.gather(self._ticking, return_exceptions=True)
        self._update()

    def _update(self) -> None:
        self.burden.wall_s = time.perf_counter() - self._began_s
        self.burden.cpu_s = time.process_time() - self._began_cpu_s

    async def _tick(self) -> None:
        while True:
            for _ in range(_TICKS_PER_UPDATE):
                due_s = time.perf_counter() + _TICK_S
                await asyncio.sleep(_TICK_S)
                self.burden.late.record(time.perf_counter() - due_s)
            self._update()
