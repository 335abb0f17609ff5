"""Looks at all engines: who is looked at, how often, and what becomes of it."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections import Counter
from typing import TYPE_CHECKING

from headgate import fleet, routing
from headgate.gateway.scraping.fetch import LargeAnswers
from headgate.gateway.scraping.pace import Pace
from headgate.gateway.scraping.targets import Target, targets
from headgate.gateway.scraping.watch import Result, Watch
from headgate.loop_turns import Turns

if TYPE_CHECKING:
    from headgate.gateway.proxy import Proxy

log = logging.getLogger(__name__)

MAX_AT_ONCE = 64
"""Looks under way at a time."""


class Scraper:
    """The watches of one gateway process. Does nothing before it is started."""

    def __init__(self, proxy: Proxy, rng: random.Random) -> None:
        self._proxy = proxy
        self.now = proxy.now
        self.rng = rng
        self.slots = asyncio.Semaphore(MAX_AT_ONCE)
        self.reading = asyncio.Lock()
        """Of what has come: it takes a while for what a hostile engine sends."""
        self.turns = Turns(proxy.loop)
        """In which connections are read on that bring much."""
        self.large = LargeAnswers()
        """Pages and lists that are held at a time."""
        self.pages: Counter[Result] = Counter({"read": 0, "absent": 0, "failed": 0})
        self.malformed_families = 0
        self.restarts = 0
        self.is_started = False
        self._turn_s = 0.0
        self._turn_at = 0.0
        """When the next look may begin."""
        self._watches: dict[routing.Endpoint, Watch] = {}
        self._tasks: dict[routing.Endpoint, asyncio.Task[None]] = {}

    @property
    def pace(self) -> Pace:
        return self._pace

    @property
    def timeout_s(self) -> float:
        return self._proxy.settings.engine_metrics.timeout_s

    def start(self) -> None:
        """Looks from now on, as far as the settings say so."""
        self.is_started = True
        self.use()

    def use(self) -> None:
        """Takes up the pools and the settings as they are now."""
        settings = self._proxy.settings
        wanted: dict[routing.Endpoint, Target] = {}
        if self.is_started and settings.engine_metrics.enabled:
            wanted = targets((pool.pool for pool in self._proxy.pools.values()), settings)
        # Each worker looks for itself, in its share of the turns and of the engines' time.
        self._turn_s = settings.workers.count / settings.engine_metrics.max_per_s
        self._pace = Pace(
            rest_s=settings.engine_metrics.interval_s,
            quick_s=settings.engine_metrics.busy_interval_s,
            lookers=settings.workers.count,
            round_s=len(wanted) * self._turn_s,
            old_s=settings.engine_metrics.stale_s,
        )
        for endpoint, watch in list(self._watches.items()):
            if wanted.get(endpoint) == watch.target:
                watch.load = self._proxy.ledger.load(endpoint)
                watch.settle(self.now())
            else:
                del self._watches[endpoint]
                self._tasks.pop(endpoint).cancel()
        for endpoint in wanted.keys() - self._watches.keys():
            self._begin(wanted[endpoint])

    def _begin(self, target: Target) -> None:
        endpoint = target.endpoint
        try:
            watch = Watch(self, target, self._proxy.ledger.load(endpoint))
        except ssl.SSLError as error:
            log.warning("the metrics of %s cannot be asked for: %s", endpoint.name, error)
            return
        self._watches[endpoint] = watch
        self._tasks[endpoint] = self._proxy.spawn(watch.run())

    def sweep(self) -> None:
        """What has become too old is relied on no more; called about once a second."""
        now = self.now()
        for watch in self._watches.values():
            watch.settle(now)

    def list_models_soon(self, load: fleet.EndpointState) -> None:
        """An endpoint does not know an adapter that it should have."""
        watch = self._watches.get(load.endpoint)
        if watch is not None:
            watch.list_models_soon()

    def watch(self, load: fleet.EndpointState) -> Watch | None:
        """Whoever looks at an endpoint; None if nobody does."""
        return self._watches.get(load.endpoint)

    def watches(self) -> list[Watch]:
        return list(self._watches.values())

    # -- for the watches

    def context(self, tls: routing.Tls, *, http2: bool = False) -> ssl.SSLContext:
        """Raises SSLError."""
        return self._proxy.tls_context(tls, http2=http2)

    def take_turn(self) -> float:
        """Seconds until the next look may begin, which is the caller's then: not all begin at once."""
        now = self.now()
        turn_at = max(self._turn_at, now)
        self._turn_at = turn_at + self._turn_s
        return turn_at - now

    def count(self, result: Result) -> None:
        self.pages[result] += 1

    def malformed(self, families: int) -> None:
        self.malformed_families += families

    def is_waited_for(self, load: fleet.EndpointState) -> bool:
        """Whether requests wait until an endpoint, or another of its pool, has room."""
        return self._proxy.queues.waits_for(load)

    def heard(self, load: fleet.EndpointState) -> None:
        """An endpoint has another reading."""
        self._proxy.queues.learned(load)

    def restarted(self, watch: Watch) -> None:
        self.restarts += 1
        endpoint = watch.target.endpoint
        log.info("the engine of %s (%s) has started anew", endpoint.name, endpoint.address)
        watch.load.begins_anew(self.now())
        self._proxy.engine_restarted(watch.load)
