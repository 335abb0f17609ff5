"""Reports in the status of objects that nothing acts on them, so that they do not appear to work."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from headgate import api, cluster
from headgate.api.unattended import UNATTENDED
from headgate.controllers import conditions
from headgate.controllers.status_writes import COMPONENT, Outcome, write_status
from headgate.kubeschema import timestamps

READY, NOT_IMPLEMENTED = "Ready", "NotImplemented"

KINDS: tuple[type[Any], ...] = ()
"""Kinds with a status that has conditions."""


class UnattendedObjects:
    """Follows the objects of these kinds, and writes one condition to each."""

    def __init__(
        self,
        client: cluster.Client,
        namespaces: Sequence[str] = (),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        leadership: cluster.Leadership | None = None,
        kinds: Sequence[type[Any]] = KINDS,
    ) -> None:
        self._client = client
        self._kinds = kinds
        self._leadership = leadership or cluster.Undisputed()
        self._scopes = cluster.scopes(namespaces)
        self._clock = clock
        self._objects: dict[tuple[type[Any], api.ObjectKey], Any] = {}
        self._queue: cluster.WorkQueue[tuple[type[Any], api.ObjectKey]] = cluster.WorkQueue()
        self._events = cluster.EventRecorder(client, COMPONENT, clock)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for kind, scope in itertools.product(self._kinds, self._scopes):
                informer: cluster.Informer[Any] = cluster.Informer(
                    self._client, kind, scope, may_be_absent=True
                )
                informer.subscribe(self._changed)
                tasks.create_task(informer.run())
            tasks.create_task(self._events.run())
            tasks.create_task(cluster.run_workers(self._queue, self._reconcile, 1))

    def _changed(self, change: cluster.Change[Any]) -> None:
        subject = type(change.object), change.object.metadata.key
        if change.new is None:
            self._objects.pop(subject, None)
        else:
            self._objects[subject] = change.new
            self._queue.add(subject)

    def _findings(self, obj: cluster.KubeObject) -> list[conditions.Finding]:
        resource = obj.resource
        told = UNATTENDED[resource.group, resource.kind]
        return [conditions.Finding(READY, False, NOT_IMPLEMENTED, told)]

    async def _reconcile(self, subject: tuple[type[Any], api.ObjectKey]) -> float | None:
        await self._leadership.acquired()
        obj = self._objects.get(subject)
        if obj is None:
            return None
        said = list(obj.status.conditions) if obj.status is not None else []
        now = timestamps.seconds(self._clock().timestamp())
        before = api.ObservedStatus(conditions=said)
        due = conditions.observed(before, self._findings(obj), obj.metadata.generation, now)
        if sorted(due.conditions, key=_type) == sorted(said, key=_type):
            return None
        # An API server requires every condition to have a message, even an empty one.
        written = [{"message": ""} | msgspec.to_builtins(each) for each in due.conditions]
        if await write_status(self._client, obj, {"conditions": written}) is not Outcome.WRITTEN:
            return None  # the informer will provide the current state
        for condition in conditions.news(before, due):
            told = f"{condition.type}: {condition.message}"
            kind = cluster.EventType.NORMAL if condition.status == "True" else cluster.EventType.WARNING
            self._events.record(obj, kind, condition.reason, told)
        return None


def _type(condition: api.Condition) -> str:
    return condition.type
