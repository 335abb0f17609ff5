"""Follows the objects of the Gateway API, and writes the statuses of those that Headgate implements.

One pass computes all statuses, because a listener counts the routes of all namespaces. Changes that come
together make one pass, and passes use at most a tenth of a core. Of several controllers, the leader writes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from headgate import api, cluster
from headgate.api.gateways import Gateway, GatewayClass
from headgate.controllers.gateway_api import forming
from headgate.controllers.gateway_api.assessment import Assessor
from headgate.controllers.gateway_api.listening import Listening
from headgate.controllers.gateway_api.objects import FOLLOWED, OF_CLUSTER, STATED, Key, Objects
from headgate.controllers.gateway_api.settings import GatewayApiSettings
from headgate.controllers.status_writes import Outcome, write_status
from headgate.kubeschema import timestamps
from headgate.routing.gateway_api import named_secrets

ACCESS_PATIENCE_S = 5.0
"""How long a start waits for rights that were not there at once."""
GATHER_S = 0.1
"""How long to collect further changes."""
SHARE = 10
"""A pass and the pause after it take so many times as long as the pass."""
WORKERS = 4


@dataclass(frozen=True)
class GatewayApiStatistics:
    passes: int
    written: int
    conflicts: int
    """Writes rejected because the object had changed in the meantime; they are repeated."""
    objects: Mapping[str, int]
    listening: Mapping[str, int]
    queue: cluster.WorkQueueStatistics


class _Found(NamedTuple):
    """What the last pass found out about an object."""

    uid: str
    generation: int
    findings: forming.Findings

    def is_about(self, obj: Any) -> bool:
        """Whether it is this version of the object, and not one that had its name before."""
        return (obj.metadata.uid, obj.metadata.generation) == (self.uid, self.generation)


class _Writer:
    """Writes statuses that have changed."""

    def __init__(
        self,
        client: cluster.Client,
        controller_name: str,
        clock: Callable[[], datetime],
        leadership: cluster.Leadership,
    ) -> None:
        self._client = client
        self._controller_name = controller_name
        self._clock = clock
        self._leadership = leadership
        self.written = 0
        self.conflicts = 0

    async def write(self, obj: Any, found: _Found) -> float | None:
        """Returns after how many seconds to repeat it; None if that is not needed."""
        await self._leadership.acquired()
        if not found.is_about(obj):
            return None  # a pass over this version is to come
        now = timestamps.seconds(self._clock().timestamp())
        status = forming.formed(obj, found.findings, self._controller_name, now)
        if forming.is_current(obj, status):
            return None
        if not self._leadership.is_held():
            return GATHER_S
        outcome = await write_status(self._client, obj, forming.plain(status))
        if outcome is Outcome.OUTDATED:
            self.conflicts += 1
            return GATHER_S
        self.written += outcome is Outcome.WRITTEN
        return None


class GatewayApiController:
    """Follows the objects, and writes the status subresource."""

    def __init__(
        self,
        client: cluster.Client,
        namespaces: Sequence[str] = (),
        settings: GatewayApiSettings | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        leadership: cluster.Leadership | None = None,
    ) -> None:
        self._client = client
        settings = settings or GatewayApiSettings()
        self._is_off = not settings.controller_name
        self._scopes = cluster.scopes(namespaces)
        self._objects = Objects(settings.controller_name)
        self._service = client.key_of(settings.service) if settings.service else None
        self._assessor = Assessor(settings, self._service)
        self._changed = asyncio.Event()
        self._listening = Listening(self._changed.set)
        self._secrets = cluster.NamedObjects(client, api.Secret, self._handler(api.Secret))
        self._found: dict[Key, _Found] = {}
        self._queue: cluster.WorkQueue[Key] = cluster.WorkQueue()
        self._writer = _Writer(client, settings.controller_name, clock, leadership or cluster.Undisputed())
        self._classes_changed: Callable[[], None] = lambda: None
        self.is_ready = False
        """Whether all objects are loaded."""

    def has_classes(self) -> bool:
        """Whether there is a GatewayClass that Headgate implements."""
        return bool(self._objects.our_classes())

    def on_classes(self, changed: Callable[[], None]) -> None:
        """Call `changed` when the first GatewayClass of ours appears, or the last one goes."""
        self._classes_changed = changed

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Run until cancelled; calls `on_ready` once all objects are loaded. Without a controller name, it
        returns at once: the Gateway API is off."""
        if self._is_off:
            self.is_ready = True
            on_ready()
            return
        informers = [informer for kind in FOLLOWED for informer in self._follow(kind)]
        async with asyncio.TaskGroup() as tasks:
            for informer in informers:
                tasks.create_task(informer.run())
            # Before that, objects that are not listed yet would be reported missing.
            await asyncio.gather(*(informer.wait_known(ACCESS_PATIENCE_S) for informer in informers))
            tasks.create_task(self._secrets.run())
            tasks.create_task(self._listening.run())
            tasks.create_task(self._run_passes())
            tasks.create_task(cluster.run_workers(self._queue, self._reconcile, WORKERS))
            self.is_ready = True
            on_ready()

    def statistics(self) -> GatewayApiStatistics:
        return GatewayApiStatistics(
            self._assessor.passes,
            self._writer.written,
            self._writer.conflicts,
            self._objects.statistics(),
            self._listening.statistics(),
            self._queue.statistics(),
        )

    def _follow(self, kind: type[Any]) -> list[cluster.Informer[Any]]:
        scopes: set[str | None] = {None} if kind in OF_CLUSTER else {*self._scopes}
        if kind is api.Service and self._service is not None and None not in scopes:
            scopes.add(self._service.namespace)
        informers: list[cluster.Informer[Any]] = [
            cluster.Informer(self._client, kind, scope, may_be_absent=True) for scope in scopes
        ]
        for informer in informers:
            informer.subscribe(self._handler(kind))
        return informers

    def _handler(self, kind: type[Any]) -> Callable[[cluster.Change[Any]], None]:
        def changed(change: cluster.Change[Any]) -> None:
            key = change.object.metadata.key
            had_classes = self.has_classes()
            if self._objects.put(kind, key, change.new):
                self._changed.set()
            elif kind in STATED:
                self._queue.add((kind, key))  # others may have written its status
            if kind is GatewayClass and self.has_classes() != had_classes:
                self._classes_changed()

        return changed

    async def _run_passes(self) -> None:
        while True:
            await self._changed.wait()
            await asyncio.sleep(GATHER_S)
            self._changed.clear()
            began = time.perf_counter()
            self._pass()
            await asyncio.sleep((SHARE - 1) * (time.perf_counter() - began))

    def _pass(self) -> None:
        unknown = self._follow_secrets()
        assessed = self._assessor.assess(self._objects, self._listening.accepts)
        self._listening.follow(assessed.places)
        for key, findings in assessed.findings.items():
            obj = self._objects.get(*key)
            if isinstance(obj, Gateway) and unknown & named_secrets([obj]):
                continue  # their certificates would be reported missing
            found = _Found(obj.metadata.uid, obj.metadata.generation, findings)
            if self._found.get(key) != found:
                self._found[key] = found
                self._queue.add(key)
        for key in self._found.keys() - assessed.findings.keys():
            del self._found[key]

    def _follow_secrets(self) -> set[api.ObjectKey]:
        """Follow the Secrets that are named now, and forget the others. Returns those about which the server
        has not responded yet; another pass follows then."""
        named = named_secrets(self._objects.our_gateways())
        for gone in self._objects.secrets() - named:
            self._objects.put(api.Secret, gone, None)
        self._secrets.follow(named)
        unknown = {each for each in named if not self._secrets.is_known(each)}
        if unknown:
            asyncio.get_running_loop().call_later(GATHER_S, self._changed.set)
        return unknown

    async def _reconcile(self, key: Key) -> float | None:
        obj, found = self._objects.get(*key), self._found.get(key)
        return await self._writer.write(obj, found) if obj is not None and found is not None else None
