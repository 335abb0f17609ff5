"""Keeps the status of every ModelRoute and ModelServer true: Accepted, ResolvedRefs and Ready.

There may be only one status controller at a time for now: leader election by Lease is not built yet. Two of
them would do no harm, as they write the same and never over a newer version, but each change would be
written or refused twice, and told in events twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from headgate import api, cluster
from headgate.controllers import conditions
from headgate.controllers.assessment import status_of
from headgate.controllers.object_index import ObjectIndex, Observed, Subject
from headgate.controllers.settling import Settling

log = logging.getLogger(__name__)

COMPONENT = "headgate-controller"
GATHER_S = 0.1
"""How long a change waits for others, since a rollout and an `apply` of several files come in bursts."""

K = TypeVar("K", bound=cluster.KubeObject)


@dataclass(frozen=True)
class StatusStatistics:
    assessed: int
    """Statuses that were worked out."""
    written: int
    conflicts: int
    """Writes that were refused since the object had changed meanwhile; they are made anew."""
    settling: int
    """Statuses that are not written yet, since only their words differ and may change again."""
    queue: cluster.WorkQueueStatistics
    events: cluster.EventStatistics
    index: dict[str, int]


class StatusController:
    """Follows routes, servers and Pods, and writes through the status subresource."""

    def __init__(
        self,
        client: cluster.Client,
        namespace: str | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        settling: Settling | None = None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._settling = settling or Settling()
        self._index = ObjectIndex()
        self._queue: cluster.WorkQueue[Subject] = cluster.WorkQueue()
        self._events = cluster.EventRecorder(client, COMPONENT, clock)
        self._secrets = cluster.NamedObjects(client, api.Secret, self._handler(self._index.set_secret))
        self._assessed = self._written = self._conflicts = 0

    async def run(self, workers: int, on_ready: Callable[[], None]) -> None:
        """Works until cancelled; `on_ready` is called once all objects are known."""
        informers: tuple[cluster.Informer[Any], ...] = (
            self._follow(api.Pod, self._index.set_pod),
            self._follow(api.ModelServer, self._set_server),
            self._follow(api.ModelRoute, self._index.set_route),
        )
        async with asyncio.TaskGroup() as tasks:
            for informer in informers:
                tasks.create_task(informer.run())
            # Before that, what is merely not listed yet would be reported missing.
            for informer in informers:
                await informer.wait_synced()
            tasks.create_task(self._secrets.run())
            tasks.create_task(self._events.run())
            tasks.create_task(cluster.run_workers(self._queue, self._reconcile, workers))
            on_ready()

    def statistics(self) -> StatusStatistics:
        return StatusStatistics(
            self._assessed,
            self._written,
            self._conflicts,
            len(self._settling),
            self._queue.statistics(),
            self._events.statistics(),
            self._index.statistics(),
        )

    def _follow(
        self, kind: type[K], put: Callable[[api.ObjectKey, K | None], set[Subject]]
    ) -> cluster.Informer[K]:
        informer = cluster.Informer(self._client, kind, self._namespace)
        informer.subscribe(self._handler(put))
        return informer

    def _handler(
        self, put: Callable[[api.ObjectKey, K | None], set[Subject]]
    ) -> Callable[[cluster.Change[K]], None]:
        def changed(change: cluster.Change[K]) -> None:
            for subject in put(change.object.metadata.key, change.new):
                self._queue.add_after(subject, GATHER_S)

        return changed

    def _set_server(self, key: api.ObjectKey, server: api.ModelServer | None) -> set[Subject]:
        before = self._index.named_secrets()
        touched = self._index.set_server(key, server)
        if (named := self._index.named_secrets()) != before:
            self._secrets.follow(named)
            for secret in before - named:
                self._index.set_secret(secret, None)
        return touched

    async def _reconcile(self, subject: Subject) -> float | None:
        obj = self._index.get(subject)
        if obj is None:
            self._settling.forget(subject)
            return None
        if not all(map(self._secrets.is_known, self._index.secrets_named_by(obj))):
            return GATHER_S  # what was merely not asked for yet would be reported missing
        self._assessed += 1
        now = api.timestamps.seconds(self._clock().timestamp())
        status = status_of(obj, self._index, now)
        if status == obj.status:
            self._settling.forget(subject)
            return None
        wait_s = self._settling.wait_s(subject, obj.status, status, asyncio.get_running_loop().time())
        again_s = wait_s or await self._write(obj, status)
        if again_s is None:
            self._settling.forget(subject)
        return again_s

    async def _write(self, obj: Observed, status: api.ObservedStatus) -> float | None:
        """The version guards against our own last write as well, which may not have come back to us yet."""
        meta = obj.metadata
        patch = {
            "metadata": {"resourceVersion": meta.resource_version},
            "status": msgspec.to_builtins(status),
        }
        try:
            await self._client.patch(
                type(obj), meta.name, meta.namespace, patch, subresource="status", field_manager=COMPONENT
            )
        except cluster.NotFound:
            return None  # it was deleted, which the informer will tell
        except cluster.Conflict:
            self._conflicts += 1
            return GATHER_S  # the informer brings the newer version
        self._written += 1
        for condition in conditions.news(obj.status, status):
            self._tell(obj, condition)
        return None

    def _tell(self, obj: Observed, condition: api.Condition) -> None:
        kind = cluster.EventType.NORMAL if condition.status == "True" else cluster.EventType.WARNING
        self._events.record(obj, kind, condition.reason, f"{condition.type}: {condition.message}")
