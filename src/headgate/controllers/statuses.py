"""Maintains the status of all routing objects: Accepted, Ready and other conditions.

Of several status controllers, the leader writes; the others follow all objects, ready to take over. Two that
write would do no harm, because they write the same and never over a newer version, but each change would be
written or rejected twice, and reported in two events.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from headgate import api, cluster, routing
from headgate.api import gie_v1
from headgate.controllers import conditions, relations
from headgate.controllers.assessment import status_of
from headgate.controllers.inference_findings import has_no_route
from headgate.controllers.object_index import ObjectIndex
from headgate.controllers.relations import KINDS, Observed, Subject
from headgate.controllers.status_writes import COMPONENT, Outcome, write_status
from headgate.kubeschema import timestamps

log = logging.getLogger(__name__)

ACCESS_PATIENCE_S = 5.0
"""How long a start waits for rights that were not there at once, and how often they are looked for later."""
GATHER_S = 0.1
"""How long to collect further changes, because a rollout or an `apply` of several files comes in bursts."""

K = TypeVar("K", bound=cluster.KubeObject)


@dataclass(frozen=True)
class StatusStatistics:
    assessed: int
    """Statuses that were computed."""
    written: int
    conflicts: int
    """Writes rejected because the object had changed in the meantime; they are repeated."""
    settling: int
    """Statuses not written yet, because only their messages differ and may change again."""
    queue: cluster.WorkQueueStatistics
    events: cluster.EventStatistics
    index: dict[str, int]


class _StatusWriter:
    """Writes statuses while this process leads, and reports changed conditions in events."""

    def __init__(
        self, client: cluster.Client, clock: Callable[[], datetime], leadership: cluster.Leadership
    ) -> None:
        self._client = client
        self._leadership = leadership
        self.events = cluster.EventRecorder(client, COMPONENT, clock)
        self.written = 0
        self.conflicts = 0
        """Writes rejected because the object had changed in the meantime."""

    async def write(self, obj: Observed, status: api.ObservedStatus) -> float | None:
        """Returns after how many seconds to repeat it; None if that is not needed."""
        if not self._leadership.is_held():
            return GATHER_S
        outcome = await write_status(self._client, obj, conditions.written(obj, status))
        if outcome is Outcome.OUTDATED:
            self.conflicts += 1
            return GATHER_S
        if outcome is Outcome.GONE:
            return None
        self.written += 1
        if not _has_controller(obj):
            for condition in conditions.news(conditions.said(obj), status):
                self._tell(obj, condition)
        return None

    async def withdraw(self, pool: gie_v1.InferencePool) -> float | None:
        """Removes our entry from the parents of a pool, as far as it has one. Returns as `write` does."""
        parents = conditions.without_ours(pool)
        if pool.status is None or parents == pool.status.parents:
            return None
        if not self._leadership.is_held():
            return GATHER_S
        plain = conditions.plain(gie_v1.InferencePoolStatus(parents=parents))
        outcome = await write_status(self._client, pool, {"parents": [], **plain})
        return GATHER_S if outcome is Outcome.OUTDATED else None

    def _tell(self, obj: Observed, condition: api.Condition) -> None:
        kind = cluster.EventType.NORMAL if condition.status == "True" else cluster.EventType.WARNING
        self.events.record(obj, kind, condition.reason, f"{condition.type}: {condition.message}")


class StatusController:
    """Follows the objects and their Pods, and writes the status subresource."""

    def __init__(
        self,
        client: cluster.Client,
        namespaces: Sequence[str] = (),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        settling: Settling | None = None,
        leadership: cluster.Leadership | None = None,
        has_gateways: Callable[[], bool] = lambda: False,
    ) -> None:
        """`has_gateways`: whether requests may also come in by the Gateway API. Then a pool to which nothing
        else leads is none of this controller's."""
        self._client = client
        self._has_gateways = has_gateways
        self._leadership = leadership or cluster.Undisputed()
        self._scopes = cluster.scopes(namespaces)
        self._clock = clock
        self._settling = settling or Settling()
        self._index = ObjectIndex()
        self._queue: cluster.WorkQueue[Subject] = cluster.WorkQueue()
        self._writer = _StatusWriter(client, clock, self._leadership)
        self._secrets = cluster.NamedObjects(client, api.Secret, self._handler(self._index.put_secret))
        self._services = cluster.NamedObjects(client, api.Service, self._handler(self._index.put_service))
        self._pods: dict[str | None, cluster.Informer[api.Pod]] = {}
        """By the namespace that is followed; None for all."""
        self._assessed = 0
        self.is_ready = False
        """Whether all objects are loaded."""

    async def run(self, workers: int, on_ready: Callable[[], None]) -> None:
        """Run until cancelled; calls `on_ready` once all objects are loaded."""
        informers: list[cluster.Informer[Any]] = []
        for scope in self._scopes:
            pods = self._follow(api.Pod, scope, self._index.put_pod, reduced=routing.reduced_pod)
            self._pods[scope] = pods
            informers.append(pods)
            informers += [
                self._follow(kind, scope, self._putting(kind), may_be_absent=True) for kind in KINDS.values()
            ]
        async with asyncio.TaskGroup() as tasks:
            for informer in informers:
                tasks.create_task(informer.run())
            # Before that, objects that are not listed yet would be reported missing.
            await asyncio.gather(*(informer.wait_known(ACCESS_PATIENCE_S) for informer in informers))
            tasks.create_task(self._secrets.run())
            tasks.create_task(self._services.run())
            tasks.create_task(self._writer.events.run())
            tasks.create_task(cluster.run_workers(self._queue, self._reconcile, workers))
            self.is_ready = True
            on_ready()

    def review_pools(self) -> None:
        """Assess all InferencePools again: `has_gateways` has changed."""
        for subject in self._index.pools():
            self._queue.add_after(subject, GATHER_S)

    def statistics(self) -> StatusStatistics:
        return StatusStatistics(
            self._assessed,
            self._writer.written,
            self._writer.conflicts,
            len(self._settling),
            self._queue.statistics(),
            self._writer.events.statistics(),
            self._index.statistics(),
        )

    def _follow(
        self,
        kind: type[K],
        scope: str | None,
        put: Callable[[api.ObjectKey, K | None], set[Subject]],
        *,
        may_be_absent: bool = False,
        reduced: Callable[[K], K] | None = None,
    ) -> cluster.Informer[K]:
        informer = cluster.Informer(self._client, kind, scope, may_be_absent=may_be_absent, reduced=reduced)
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
        """A function that indexes an object of the kind and follows the Secret or Service that it names."""
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
        """Follow the objects named now, and forget those no longer named."""
        for gone in self._index.known_secrets() - (named := self._index.named_secrets()):
            self._index.put_secret(gone, None)
        self._secrets.follow(named)
        for gone in self._index.known_services() - (named := self._index.named_services()):
            self._index.put_service(gone, None)
        self._services.follow(named)

    def _is_known(self, obj: Observed) -> bool:
        """Whether all objects that it names were fetched; otherwise they would be reported missing."""
        picker = relations.picker(obj)
        return all(map(self._secrets.is_known, self._index.secrets_named_by(obj))) and (
            picker is None or self._services.is_known(picker)
        )

    async def _reconcile(self, subject: Subject) -> float | None:
        await self._leadership.acquired()
        obj = self._index.get(subject)
        if obj is None:
            self._settling.forget(subject)
            return None
        if not self._is_known(obj):
            return GATHER_S
        if not (self._pods.get(subject.key.namespace) or self._pods[None]).synced.is_set():
            return ACCESS_PATIENCE_S  # Pods that may not be read would be reported missing
        self._assessed += 1
        now = timestamps.seconds(self._clock().timestamp())
        status = status_of(obj, self._index, now)
        said = conditions.said(obj)
        # Then only routes of the Gateway API can lead to a pool, so that its parents are Gateways.
        if isinstance(obj, gie_v1.InferencePool) and self._has_gateways() and has_no_route(status):
            return await self._writer.withdraw(obj)
        if status == said:
            self._settling.forget(subject)
            return None
        wait_s = self._settling.wait_s(subject, said, status, asyncio.get_running_loop().time())
        again_s = wait_s or await self._writer.write(obj, status)
        if again_s is None:
            self._settling.forget(subject)
        return again_s


def _has_controller(obj: Observed) -> bool:
    """Whether another controller made the object, and tells how it stands, as that of Models does."""
    return any(owner.controller for owner in obj.metadata.owner_references)


def _named(obj: Observed | None) -> tuple[api.ObjectKey | None, ...]:
    """The Secret and the Service that it names."""
    return (relations.authorities(obj), relations.picker(obj)) if obj is not None else (None, None)


# When to write a status that differs from the stored one only in its messages.
#
# Changes of status and reason are written immediately. The number of Pods is not worth a write for each Pod
# of a rollout, which may affect hundreds of routes: such messages are written once they have been stable for
# a while, and occasionally during a long rollout. A count that returns to the stored value is not written at
# all.
QUIET_S = 2.0
"""How long messages must be stable before they are written."""
LONGEST_S = 30.0
"""How long stored messages may be outdated while the current ones keep changing."""


class _Waiting(NamedTuple):
    status: api.ObservedStatus
    same_since: float
    differs_since: float


class Settling:
    """Times are monotonic seconds of the caller's clock."""

    def __init__(self, quiet_s: float = QUIET_S, longest_s: float = LONGEST_S) -> None:
        self._quiet_s = quiet_s
        self._longest_s = longest_s
        self._waiting: dict[Subject, _Waiting] = {}

    def __len__(self) -> int:
        """How many statuses wait for their messages to become stable."""
        return len(self._waiting)

    def wait_s(
        self, subject: Subject, stored: api.ObservedStatus | None, status: api.ObservedStatus, now: float
    ) -> float:
        """Seconds to wait before writing `status`, which differs from the stored one."""
        if not conditions.is_reworded(stored, status):
            return 0.0
        waiting = self._waiting.get(subject) or _Waiting(status, now, now)
        if waiting.status != status:
            waiting = waiting._replace(status=status, same_since=now)
        self._waiting[subject] = waiting
        due = min(waiting.same_since + self._quiet_s, waiting.differs_since + self._longest_s)
        return max(0.0, due - now)

    def forget(self, subject: Subject) -> None:
        """The stored status is current, or the object is gone."""
        self._waiting.pop(subject, None)
