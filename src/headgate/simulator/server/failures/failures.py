"""Decides what fails now: for requests, probes, the metrics page, and the engines."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable

import msgspec

from headgate.simulator.model import EngineFaults, FaultSchedule
from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.exchange import Exchange
from headgate.simulator.server.failures.mishaps import Mishap
from headgate.simulator.server.failures.settings import REFUSALS, FailureSettings, MishapKind
from headgate.simulator.server.ranks import Ranks

LOOK_AGAIN_S = 0.1
JUST_AFTER_S = 1e-6
"""Faults are evaluated this long after a change, when it is in effect."""


class Failures:
    """The current settings, and the fault schedule, of one engine."""

    def __init__(
        self,
        settings: FailureSettings,
        name: str,
        seed: int,
        ranks: Ranks,
        render: Callable[[], bytes],
        on_crash: Callable[[], None],
    ) -> None:
        self._name = name
        self._rng = random.Random(seed)  # noqa: S311
        self._ranks = ranks
        self._render = render
        self._on_crash = on_crash
        self._stale_page: bytes | None = None
        self._changed = asyncio.Event()
        self.injected: Counter[str] = Counter()
        self.settings = settings
        self._faults = EngineFaults()
        self._began_s = time.monotonic()
        self.is_down = False
        self._begin(settings)

    def configure(self, settings: FailureSettings) -> None:
        """Replace all settings, or none: raises `ConfigError` if the schedule or a latency is invalid."""
        settings.check()
        tuned = self._ranks.tuned(settings)
        renewed = settings.faults != self.settings.faults
        if renewed:
            self._begin(settings)
        self.settings = settings
        self._ranks.change_costs(tuned)
        self._apply()
        self._changed.set()

    async def run(self) -> None:
        """Drive the engines through the schedule until cancelled."""
        while True:
            self._apply()
            self._changed.clear()
            now = self._now()
            later = next((time_s for time_s in self._faults.changes() if time_s > now), None)
            try:
                async with asyncio.timeout(None if later is None else later - now):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def admit(self, exchange: Exchange) -> None:
        """Admit a request: it may be cut, delayed, rejected, or marked to fail later."""
        now = self._now()
        if forced := exchange.header(b"x-return-error"):
            raise _forced(forced)
        draw = self._rng.random()
        if late_s := self._faults.late_s(now, draw):
            self.injected["late"] += 1
            await asyncio.sleep(late_s)
        if (error := self._faults.error(now, draw)) is not None:
            self.injected["error"] += 1
            raise ApiError(error.status, "The schedule of faults says so", retry_after_s=error.rest_s or 0)
        if self._rng.random() * 100 < self.settings.failure_injection_rate and self.settings.failure_types:
            kind = await self._fail()
            if kind is not None:
                exchange.mishap = Mishap(kind, self.settings)

    async def require_up(self, exchange: Exchange) -> None:
        """Cut the connection if the engine has crashed; wait while it is stopped."""
        await self._until_it_goes_on()
        if self.is_down:
            await exchange.reset()

    def require_ready(self) -> None:
        """Raise a 503 for probes while the engine should appear not ready."""
        if not (self.settings.ready and self._faults.is_ready(self._now())):
            raise ApiError(503, "The engine is not ready; its failure settings say so")

    async def metrics_page(self, exchange: Exchange) -> bytes:
        """The current metrics page, an old one, or none."""
        if self.settings.metrics == "off" or not self._faults.has_metrics(self._now()):
            await exchange.reset()
        return self._stale_page or self._render()

    async def _until_it_goes_on(self) -> None:
        """Wait for the end of a stop."""
        while (left_s := self._faults.stopped_until(self._now()) - self._now()) > 0:  # noqa: ASYNC110 - another schedule may end it
            await asyncio.sleep(min(left_s, LOOK_AGAIN_S))

    async def _fail(self) -> MishapKind | None:
        kind = self._rng.choice(self.settings.failure_types)
        self.injected[kind] += 1
        if kind in REFUSALS:
            status, message = REFUSALS[kind]
            raise ApiError(status, message)
        if kind == "latency":
            await asyncio.sleep(self.settings.latency_s)
            return None
        return kind  # type: ignore[return-value]

    def _begin(self, settings: FailureSettings) -> None:
        self._faults = FaultSchedule.from_objects(settings.faults).of(self._name)
        self._began_s = time.monotonic()

    def _apply(self) -> None:
        """Apply the current faults to the engines."""
        now = self._now()
        self._ranks.slow_down(self.settings.slowdown * self._faults.slowdown(now))
        self._ranks.hold(self._faults.stalled_until(now) - now)
        was_down, self.is_down = self.is_down, self._faults.is_down(now)
        if self.is_down and not was_down:
            self._on_crash()
        stale = self.settings.metrics == "stale" or self._faults.has_old_metrics(now)
        self._stale_page = (self._stale_page or self._render()) if stale else None

    def _now(self) -> float:
        return time.monotonic() - self._began_s + JUST_AFTER_S


def read_changes(body: bytes, settings: FailureSettings) -> FailureSettings:
    """The settings changed by the fields of a JSON object; `msgspec.ValidationError` names an invalid one."""
    given = msgspec.json.decode(body, type=dict[str, object])
    changes = {name.replace("-", "_"): value for name, value in given.items()}
    return msgspec.convert(msgspec.to_builtins(settings) | changes, FailureSettings)


def _forced(value: str) -> ApiError:
    if not value.isdecimal() or not 400 <= int(value) <= 599:
        return ApiError(400, f"X-Return-Error: must be a status from 400 to 599, got {value!r}")
    return ApiError(int(value), "The header X-Return-Error asked for this")
