"""The objects of a gateway without an API server, as the supervisor gives them to its workers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from headgate import telemetry
from headgate.api.stored_object import StoredObject
from headgate.gateway.settings.objects import Objects
from headgate.standalone import urls
from headgate.standalone.settings import Settings
from headgate.workers import messages
from headgate.workers.process import WorkerProcess

if TYPE_CHECKING:
    from headgate.standalone.source import StandaloneObjects

log = logging.getLogger(__name__)

AGAIN_S = 0.5
"""Until a worker that did not read the last ones gets them again."""


def settings_of(section: Objects) -> Settings:
    """The settings, which have been checked, as the source reads them."""
    return Settings(
        urls=tuple(urls.read(section.endpoints)[0]),
        files=section.files,
        ask_s=section.ask_s,
        resolve_s=section.resolve_s,
        dns_servers=section.dns_servers,
    )


class GivenObjects:
    """Keeps the workers' objects current. Does nothing if they come from an API server."""

    def __init__(self, source: StandaloneObjects | None, past: Sequence[StoredObject]) -> None:
        """`past`: those that workers of the supervisor before this one have."""
        self.source = source
        self._order = messages.Objects(list(past)) if past else None
        self._workers: set[WorkerProcess] = set()
        self._behind: set[WorkerProcess] = set()
        if source is not None:
            source.publish = self._publish

    @property
    def are_there(self) -> bool:
        return self.source is not None

    def give(self, worker: WorkerProcess) -> None:
        """Send the objects to a worker, now and whenever they change."""
        if worker.has_objects:
            self._workers.add(worker)
            self._send([worker])

    def forget(self, worker: WorkerProcess) -> None:
        """The worker has ended."""
        self._workers.discard(worker)
        self._behind.discard(worker)

    def change(self, section: Objects) -> None:
        """Apply new settings."""
        if self.source is not None and section.are_given:
            self.source.change(settings_of(section))
        elif (self.source is not None) != section.are_given:
            log.warning(
                "objects.endpoints and objects.files: the gateway %s an API server with its next start",
                "leaves" if section.are_given else "turns to",
            )

    async def run(self) -> None:
        """Keep them current until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            if self.source is not None:
                tasks.create_task(self.source.run())
            while True:
                await asyncio.sleep(AGAIN_S)
                self._send(list(self._behind))

    def _publish(self, objects: Sequence[StoredObject]) -> None:
        self._order = messages.Objects(list(objects))
        self._send(self._workers)

    def _send(self, workers: Iterable[WorkerProcess]) -> None:
        if self._order is None:
            return
        for worker in list(workers):
            if worker.tell(self._order):
                self._behind.discard(worker)
            else:
                self._behind.add(worker)

    def handed_over(self) -> list[StoredObject]:
        """For the next supervisor."""
        return list(self._order.objects) if self._order is not None else []

    def shown(self) -> dict[str, Any] | None:
        """For the debug page; None if they come from an API server."""
        return self.source.shown() if self.source is not None else None

    @property
    def errors(self) -> list[str]:
        """Why files are not in effect."""
        return self.source.errors if self.source is not None else []

    def add_to(self, registry: telemetry.Registry) -> None:
        """Add the metrics."""
        source = self.source
        registry.add(
            telemetry.Gauge(
                "headgate_gateway_objects",
                "Objects in effect, without an API server.",
                read=lambda: [((), len(source.objects))] if source is not None else [],
            ),
            telemetry.Gauge(
                "headgate_gateway_objects_invalid_files",
                "Files of objects whose present version is not in effect, because it has errors.",
                read=lambda: [((), len(source.files.errors))] if source is not None else [],
            ),
            telemetry.Gauge(
                "headgate_gateway_url_servers",
                "Servers of endpoint URLs; those that are ready get requests.",
                ("state",),
                read=lambda: _servers(source) if source is not None else [],
            ),
            telemetry.Counter(
                "headgate_gateway_url_lookup_failures",
                "Failed lookups of host names in endpoint URLs; the last addresses stay in use.",
                read=lambda: [((), source.failed_lookups)] if source is not None else [],
            ),
        )


def _servers(source: StandaloneObjects) -> list[tuple[tuple[str, ...], float]]:
    found = source.statistics()
    ready = found["servers_ready"]
    return [(("ready",), ready), (("not_ready",), found["servers"] - ready)]
