"""Records core/v1 Events about objects, as `kubectl describe` shows them.

Repeated events are counted instead of written again, and recording never blocks: undeliverable events are
dropped and counted.
"""

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from headgate import api
from headgate.cluster.client import Client
from headgate.cluster.errors import ApiError, NotFound
from headgate.cluster.store import KubeObject
from headgate.kubeschema import timestamps

log = logging.getLogger(__name__)

_MAX_PENDING = 1000
_MAX_REMEMBERED = 4096
_MAX_MESSAGE = 1024
"""The limit of the API for an event's message."""


class EventType(StrEnum):
    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True)
class EventStatistics:
    pending: int
    written: int
    dropped: int


class _What(NamedTuple):
    """Two events with the same content are one event that happened twice."""

    about: api.ObjectReference
    type: EventType
    reason: str
    message: str


@dataclass
class _Series:
    namespace: str
    name: str
    count: int


class EventRecorder:
    """Accepts events from anywhere, and writes them in `run()`."""

    def __init__(
        self, client: Client, component: str, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._client = client
        self._component = component
        self._clock = clock
        self._pending: OrderedDict[_What, int] = OrderedDict()
        self._written: OrderedDict[_What, _Series] = OrderedDict()
        self._wake = asyncio.Event()
        self._writes = self._dropped = 0

    def record(self, about: KubeObject, kind: EventType, reason: str, message: str) -> None:
        """Record an event about `about`: `reason` in one CamelCase word, `message` for a person."""
        what = _What(_reference(about), kind, reason, message[:_MAX_MESSAGE])
        if what not in self._pending and len(self._pending) >= _MAX_PENDING:
            self._dropped += 1
            return
        self._pending[what] = self._pending.get(what, 0) + 1
        self._wake.set()

    async def run(self) -> None:
        """Write recorded events until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._pending:
                what, times = self._pending.popitem(last=False)
                await self._deliver(what, times)

    def statistics(self) -> EventStatistics:
        return EventStatistics(len(self._pending), self._writes, self._dropped)

    async def _deliver(self, what: _What, times: int) -> None:
        try:
            await self._write(what, times)
        except ApiError as error:
            self._dropped += times
            log.warning("an event about %s %s was dropped: %s", what.about.kind, what.about.name, error)
        else:
            self._writes += 1

    async def _write(self, what: _What, times: int) -> None:
        series = self._written.get(what)
        if series is not None:
            try:
                await self._count_up(series, times)
                return
            except NotFound:
                pass  # events expire; this one begins again
        self._written[what] = await self._create(what, times)
        if len(self._written) > _MAX_REMEMBERED:
            self._written.popitem(last=False)

    async def _count_up(self, series: _Series, times: int) -> None:
        patch = {"count": series.count + times, "lastTimestamp": self._now()}
        await self._client.patch(api.Event, series.name, series.namespace, patch)
        series.count += times

    async def _create(self, what: _What, times: int) -> _Series:
        namespace = what.about.namespace or "default"
        name = f"{what.about.name}.{secrets.token_hex(8)}"
        now = self._now()
        event = api.Event(
            metadata=api.ObjectMeta(name=name, namespace=namespace),
            involved_object=what.about,
            reason=what.reason,
            message=what.message,
            type=what.type.value,
            count=times,
            first_timestamp=now,
            last_timestamp=now,
            source=api.EventSource(component=self._component),
            reporting_component=self._component,
        )
        await self._client.create(event)
        return _Series(namespace, name, times)

    def _now(self) -> str:
        return timestamps.seconds(self._clock().timestamp())


def _reference(obj: KubeObject) -> api.ObjectReference:
    return api.ObjectReference(
        api_version=obj.resource.api_version,
        kind=obj.resource.kind,
        name=obj.metadata.name,
        namespace=obj.metadata.namespace,
        uid=obj.metadata.uid,
    )
