"""One picker process: its data plane, its streams, its queues, and its readers of engines."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
import uuid
from collections.abc import Callable
from functools import cached_property
from typing import Any

import msgspec

from headgate import cluster, fleet, observe, routing
from headgate.api.marks import FALLBACK
from headgate.dataplane import large_reader
from headgate.dataplane.background import Background
from headgate.dataplane.bodies import BodyMemory
from headgate.dataplane.connector import EngineConnector
from headgate.dataplane.peering import Peering
from headgate.dataplane.queueing import Queues
from headgate.dataplane.queueing.metrics import WaitMetrics
from headgate.dataplane.records.recorder import Recorder
from headgate.dataplane.rules import ejection_policy, observe_settings, rules_of
from headgate.dataplane.watching import Watching
from headgate.observe.kv_events import KvEventSources
from headgate.observe.scraper import Scraper
from headgate.picker.host import Call, Swept
from headgate.picker.pools import Confinement
from headgate.picker.reference_metrics import ReferenceMetrics
from headgate.picker.settings import Choices, PickerSettings
from headgate.picker.stream import Stream
from headgate.requests.data_plane import Change, DataPlane, new_prefixes
from headgate.requests.destinations import Destination
from headgate.requests.rules import Rules
from headgate.telemetry import Registry

log = logging.getLogger(__name__)

SWEEP_INTERVAL_S = 1.0


def picker_rules(settings: PickerSettings) -> Rules:
    """Retries, and timeouts of responses, are the proxy's."""
    return msgspec.structs.replace(
        rules_of(settings),
        retries=0,
        response_timeout_s=math.inf,
        stream_response_timeout_s=math.inf,
        idle_timeout_s=math.inf,
        believes_objectives=True,
        notes_scores=settings.choices.emits_scores,
    )


class Shell:
    """Runs on one event loop; `close` ends everything it started. It is the `Host` of its streams."""

    def __init__(
        self,
        settings: PickerSettings,
        recorder: Recorder,
        loop: asyncio.AbstractEventLoop,
        rng: random.Random | None = None,
        reference: ReferenceMetrics | None = None,
    ) -> None:
        self.settings = settings
        self.recorder = recorder
        self.reference = reference or ReferenceMetrics(Registry())
        self.loop = loop
        self.now: Callable[[], float] = loop.time
        self.rng = rng or random.Random()  # noqa: S311 - breaks ties, keeps no secret
        self.streams: set[Swept] = set()
        self.bodies = BodyMemory(settings.choices.max_bodies_bytes, settings.choices.max_body_bytes)
        self.large_bodies = large_reader.Reader(loop)
        self.engines = Engines(self, loop)
        self.queues = Queues(self)
        self.engines.listen(self.queues)
        self.is_stopping = False
        self.denied: Callable[[], list[cluster.Denied]] = list
        """Returns the objects that the API server does not let this picker read."""
        self._sweeper = loop.call_later(SWEEP_INTERVAL_S, self._sweep)

    @cached_property
    def choices(self) -> Choices:
        return self.settings.choices

    @property
    def waits(self) -> WaitMetrics:
        """Metrics of queued requests."""
        return self.recorder.waits

    @property
    def confinement(self) -> Confinement:
        return self.engines.confinement

    @cached_property
    def plane(self) -> DataPlane:
        return self.engines.plane

    @property
    def snapshots_taken(self) -> int:
        return self.engines.snapshots_taken

    @property
    def snapshot_at(self) -> float:
        return self.engines.snapshot_at

    @property
    def scraper(self) -> Scraper:
        return self.engines.scraper

    @property
    def kv_events(self) -> KvEventSources:
        return self.engines.kv_events

    @property
    def is_ready(self) -> bool:
        """Whether requests may come: the objects are loaded, and the pools exist."""
        plane = self.plane
        exist = all(key in plane.pools for key in self.confinement.named)
        return plane.is_ready and exist and not self.is_stopping

    @property
    def default_destination(self) -> Destination | None:
        """Where requests go that name no model; None while there is no pool."""
        found = self.confinement.default(self.plane.snapshot)
        pool = self.plane.pools.get(found[1]) if found is not None else None
        if found is None or pool is None:
            return None
        route, rule = found[0], found[0].rules[0]
        return Destination(routing.Match(route, rule, False), rule.targets[0], pool)

    def request_id(self) -> bytes:
        return str(uuid.uuid4()).encode()

    def open(self, call: Call) -> Stream:
        """A new stream, for one request."""
        return Stream(self, call)

    def use(self, snapshot: routing.Snapshot, step: routing.Step | None = None) -> None:
        """Use a new snapshot, as far as it is about this picker's pools; requests in progress keep theirs."""
        self.plane.use(self.confinement.confined(snapshot), self.now(), None, self._follow)
        self.engines.note_snapshot(self.confinement.missing(snapshot))

    def _follow(self, change: Change) -> None:
        """Apply a new snapshot to everything besides the data plane."""
        if change.pools:
            self.queues.use()
            self.engines.use()
            self.engines.warn_of_fallbacks()
        self.recorder.use(change.snapshot, change.difference, is_anew=change.is_anew)

    def _sweep(self) -> None:
        self._sweeper = self.loop.call_later(SWEEP_INTERVAL_S, self._sweep)
        now = self.now()
        self.plane.begin_sweep(now)
        for stream in list(self.streams):
            stream.sweep(now)
        self.plane.sweep(now)
        self.engines.sweep(now)
        self.queues.sweep()

    def drain(self) -> None:
        """Report not ready, and drop queued requests. Others may finish."""
        self.is_stopping = True
        self.queues.close()

    async def close(self) -> None:
        self._sweeper.cancel()
        self.queues.close()
        await self.engines.close()
        self.large_bodies.close()

    def statistics(self) -> dict[str, Any]:
        plane = self.plane
        return {
            "streams": len(self.streams),
            "bodies": self.bodies.statistics(),
            "ledger": plane.ledger.statistics(),
            "prefixes": plane.prefixes.statistics(),
            "peers": self.engines.peering.statistics(),
            "bytes_per_token": plane.sizes.prompts.statistics(),
            "tokens_per_answer": plane.sizes.answers.statistics(),
        }


class Engines:
    """The data plane of a picker, and what it reads from engines."""

    def __init__(self, shell: Shell, loop: asyncio.AbstractEventLoop) -> None:
        settings = shell.settings
        self._shell = shell
        self.confinement = Confinement(settings.pools)
        self.background = Background(loop)
        self.connector = EngineConnector()
        self._watching = Watching()
        self.ledger, self._prefixes = fleet.Ledger(ejection_policy(settings)), new_prefixes()
        self.plane = DataPlane(
            picker_rules(settings),
            shell.rng,
            shell.recorder.attempts,
            self._watching,
            ledger=self.ledger,
            prefixes=self._prefixes,
            memory=shell.bodies,
            phase=shell.rng.random(),
        )
        self.snapshots_taken = 0
        self.snapshot_at = 0.0
        """When the last snapshot took effect, in seconds since 1970."""
        self._missing = ""
        self._with_fallbacks: frozenset[str] = frozenset()
        """Pools that were warned of."""

    def warn_of_fallbacks(self) -> None:
        """A proxy can only be told endpoints of the pool that it asks for."""
        found = frozenset(pool.name for pool in self.plane.pools.values() if pool.pool.fallback is not None)
        for name in sorted(found - self._with_fallbacks):
            log.warning("%s: %s has no effect here: a picker sends requests nowhere else", name, FALLBACK)
        self._with_fallbacks = found

    def note_snapshot(self, missing: str) -> None:
        """A snapshot has taken effect; `missing` says which pools it lacks."""
        self.snapshots_taken += 1
        self.snapshot_at = time.time()
        if missing and missing != self._missing:
            log.warning("not ready: %s", missing)
        elif self._missing and not missing:
            log.info("all pools exist now")
        self._missing = missing

    def listen(self, queues: Queues) -> None:
        """Begin to read engines, once the queues exist that hear of it."""
        shell = self._shell
        process = observe.Process(
            loop=shell.loop,
            clock=lambda: shell.now(),
            rng=shell.rng,
            spawn=self.background.spawn,
            connector=self.connector,
        )
        listener = observe.Listener(
            heard=queues.learned,
            restarted=self.plane.engine_restarted,
            is_waited_for=queues.waits_for,
        )
        looks = observe_settings(shell.settings)
        self._watching.scraper = Scraper(looks, process, self.ledger, listener)
        self.peering = Peering(shell.settings.peers, self.plane, queues, process.clock, shell.rng)
        self._watching.kv_events = KvEventSources(process, self.ledger, self._prefixes)

    @property
    def scraper(self) -> Scraper:
        return self._watching.scraper

    @property
    def kv_events(self) -> KvEventSources:
        return self._watching.kv_events

    def start(self) -> None:
        self.scraper.start()
        self.kv_events.start()

    def use(self) -> None:
        """Read the engines of the present pools."""
        pools = [each.pool for each in self.plane.pools.values()]
        self.connector.keep(pools)
        self.scraper.use(pools)
        self.kv_events.use(pools)
        self.peering.use()

    def sweep(self, now: float) -> None:
        self.scraper.sweep()
        self.kv_events.sweep(now)

    async def close(self) -> None:
        await self.background.close()
