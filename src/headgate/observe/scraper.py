"""Reads all engines: which ones, and which reading each endpoint state gets."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence

from headgate import fleet, routing
from headgate.observe.looks import Looks
from headgate.observe.process import Listener, Process
from headgate.observe.settings import Settings
from headgate.observe.targets import Target, targets
from headgate.observe.watch import Watch

log = logging.getLogger(__name__)


class Scraper:
    """The watches of one process. Does nothing until started."""

    def __init__(
        self, settings: Settings, process: Process, ledger: fleet.Ledger, listener: Listener
    ) -> None:
        self.looks = Looks(settings, process)
        self.listener = listener
        self._settings = settings
        self._process = process
        self._ledger = ledger
        self._is_started = False
        self._pools: Sequence[routing.Pool] = ()
        self._watches: dict[routing.Endpoint, Watch] = {}
        self._tasks: dict[routing.Endpoint, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Start reading, if the settings enable it."""
        self._is_started = True
        self._follow()

    def use(self, pools: Sequence[routing.Pool]) -> None:
        """Read the endpoints of these pools."""
        self._pools = pools
        self._follow()

    def change(self, settings: Settings) -> None:
        """Apply other settings."""
        self._settings = settings
        self._follow()

    def _follow(self) -> None:
        """Apply the present pools and settings."""
        wanted: dict[routing.Endpoint, Target] = {}
        if self._is_started and self._settings.enabled:
            wanted = targets(self._pools, self._settings)
        self.looks.use(self._settings, len(wanted))
        for endpoint, watch in list(self._watches.items()):
            if wanted.get(endpoint) == watch.target:
                watch.load = self._ledger.load(endpoint)
                watch.settle(self._process.clock())
            else:
                del self._watches[endpoint]
                self._tasks.pop(endpoint).cancel()
        for endpoint in wanted.keys() - self._watches.keys():
            self._begin(wanted[endpoint])

    def _begin(self, target: Target) -> None:
        endpoint = target.endpoint
        load, connector = self._ledger.load(endpoint), self._process.connector
        try:
            watch = Watch(target, load, self.looks, connector, self.listener)
        except ssl.SSLError as error:
            log.warning("the metrics of %s cannot be asked for: %s", endpoint.name, error)
            return
        self._watches[endpoint] = watch
        self._tasks[endpoint] = self._process.spawn(watch.run())

    def sweep(self) -> None:
        """Drop readings that are too old; called about once a second."""
        now = self._process.clock()
        for watch in self._watches.values():
            watch.settle(now)

    def list_models_soon(self, load: fleet.EndpointState) -> None:
        """List the models of an endpoint soon, because it lacks an adapter that it should have."""
        watch = self._watches.get(load.endpoint)
        if watch is not None:
            watch.list_models_soon()

    def watch(self, load: fleet.EndpointState) -> Watch | None:
        """The watch of an endpoint; None if it is not read."""
        return self._watches.get(load.endpoint)

    def watches(self) -> list[Watch]:
        return list(self._watches.values())
