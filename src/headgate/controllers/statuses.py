"""Keeps the status of every object that requests are routed by true: Accepted, Ready and others.

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
from typing import Any, NamedTuple, TypeVar

from headgate import api, cluster
from headgate.controllers import conditions, relations
from headgate.controllers.assessment import status_of
from headgate.controllers.object_index import ObjectIndex
from headgate.controllers.relations import KINDS, Observed, Subject
from headgate.kubeschema import timestamps

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
    """Follows the objects and their Pods, and writes through the status subresource."""

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
        self._secrets = cluster.NamedObjects(client, api.Secret, self._handler(self._index.put_secret))
        self._services = cluster.NamedObjects(client, api.Service, self._handler(self._index.put_service))
        self._assessed = self._written = self._conflicts = 0

    async def run(self, workers: int, on_ready: Callable[[], None]) -> None:
        """Works until cancelled; `on_ready` is called once all objects are known."""
        informers: list[cluster.Informer[Any]] = [self._follow(api.Pod, self._index.put_pod)]
        informers += [self._follow(kind, self._putting(kind), may_be_absent=True) for kind in KINDS.values()]
        async with asyncio.TaskGroup() as tasks:
            for informer in informers:
                tasks.create_task(informer.run())
            # Before that, what is merely not listed yet would be reported missing.
            for informer in informers:
                await informer.wait_synced()
            tasks.create_task(self._secrets.run())
            tasks.create_task(self._services.run())
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
        self,
        kind: type[K],
        put: Callable[[api.ObjectKey, K | None], set[Subject]],
        *,
        may_be_absent: bool = False,
    ) -> cluster.Informer[K]:
        informer = cluster.Informer(self._client, kind, self._namespace, may_be_absent=may_be_absent)
        informer.subscribe(self._handler(put))
        return informer

    def _handler(
        self, put: Callable[[api.ObjectKey, K | None], set[Subject]]
    ) -> Callable[[cluster.Change[K]], None]:
        def changed(change: cluster.Change[K]) -> None:
            for subject in put(change.object.metadata.key, change.new):
                self._queue.add_after(subject, GATHER_S)

        return changed

    def _putting(self, kind: type[Observed]) -> Callable[[api.ObjectKey, Observed | None], set[Subject]]:
        """Takes an object of the kind into the index, and follows the Secret or Service that it names."""
        index = self._index

        def put(key: api.ObjectKey, obj: Observed | None) -> set[Subject]:
            subject = Subject(kind, key)
            old = index.get(subject)
            touched = index.put(subject, obj)
            if _named(old) != _named(obj):
                self._follow_named()
            return touched

        return put

    def _follow_named(self) -> None:
        """Follows what is named now; of what was, nothing is known any more."""
        for gone in self._index.known_secrets() - (named := self._index.named_secrets()):
            self._index.put_secret(gone, None)
        self._secrets.follow(named)
        for gone in self._index.known_services() - (named := self._index.named_services()):
            self._index.put_service(gone, None)
        self._services.follow(named)

    def _is_known(self, obj: Observed) -> bool:
        """Whether all that it names has been asked for: else it would be reported missing."""
        picker = relations.picker(obj)
        return all(map(self._secrets.is_known, self._index.secrets_named_by(obj))) and (
            picker is None or self._services.is_known(picker)
        )

    async def _reconcile(self, subject: Subject) -> float | None:
        obj = self._index.get(subject)
        if obj is None:
            self._settling.forget(subject)
            return None
        if not self._is_known(obj):
            return GATHER_S
        self._assessed += 1
        now = timestamps.seconds(self._clock().timestamp())
        status = status_of(obj, self._index, now)
        said = conditions.said(obj)
        if status == said:
            self._settling.forget(subject)
            return None
        wait_s = self._settling.wait_s(subject, said, status, asyncio.get_running_loop().time())
        again_s = wait_s or await self._write(obj, status)
        if again_s is None:
            self._settling.forget(subject)
        return again_s

    async def _write(self, obj: Observed, status: api.ObservedStatus) -> float | None:
        """The version guards against our own last write as well, which may not have come back to us yet."""
        meta = obj.metadata
        patch = {
            "metadata": {"resourceVersion": meta.resource_version},
            "status": conditions.written(obj, status),
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
        for condition in conditions.news(conditions.said(obj), status):
            self._tell(obj, condition)
        return None

    def _tell(self, obj: Observed, condition: api.Condition) -> None:
        kind = cluster.EventType.NORMAL if condition.status == "True" else cluster.EventType.WARNING
        self._events.record(obj, kind, condition.reason, f"{condition.type}: {condition.message}")


def _named(obj: Observed | None) -> tuple[api.ObjectKey | None, ...]:
    """The Secret and the Service that it names."""
    return (relations.authorities(obj), relations.picker(obj)) if obj is not None else (None, None)


# When a status that differs from the stored one in its words alone is written.
#
# What holds, and why, is written at once. How many Pods stand behind it is not worth a write for each Pod
# of a rollout, which may touch hundreds of routes: such words are written once they have stayed the same
# for a while, and during a long rollout now and then. A count that came back to what is stored is not
# written at all.
QUIET_S = 2.0
"""How long the words stay the same before they are written."""
LONGEST_S = 30.0
"""How long the stored words may be out of date while the right ones keep changing."""


class _Waiting(NamedTuple):
    status: api.ObservedStatus
    same_since: float
    differs_since: float


class Settling:
    """Times are monotonic seconds, by the caller's clock."""

    def __init__(self, quiet_s: float = QUIET_S, longest_s: float = LONGEST_S) -> None:
        self._quiet_s = quiet_s
        self._longest_s = longest_s
        self._waiting: dict[Subject, _Waiting] = {}

    def __len__(self) -> int:
        """How many statuses wait for their words to stay the same."""
        return len(self._waiting)

    def wait_s(
        self, subject: Subject, stored: api.ObservedStatus | None, status: api.ObservedStatus, now: float
    ) -> float:
        """For how many seconds `status`, which is not what is stored, should not be written yet."""
        if not conditions.is_reworded(stored, status):
            return 0.0
        waiting = self._waiting.get(subject) or _Waiting(status, now, now)
        if waiting.status != status:
            waiting = waiting._replace(status=status, same_since=now)
        self._waiting[subject] = waiting
        due = min(waiting.same_since + self._quiet_s, waiting.differs_since + self._longest_s)
        return max(0.0, due - now)

    def forget(self, subject: Subject) -> None:
        """What is stored is right, or is gone."""
        self._waiting.pop(subject, None)
