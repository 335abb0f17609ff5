"""Runs Models: makes their objects, keeps them as they should be, and reports how they stand.

Nothing is polled: a Model is reconciled when it, one of its objects or one of its Pods changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headgate import api, cluster
from headgate.api.kthena_registry import ModelStatus
from headgate.controllers.model import duties, names, status, tokens
from headgate.controllers.model.applying import Applier, PredecessorError, TakenError
from headgate.controllers.model.autoscalers import KINDS as AUTOSCALERS
from headgate.controllers.model.autoscalers import Autoscalers, Workload
from headgate.controllers.model.desired import Desired, desired_of, identity
from headgate.controllers.model.events import COMPONENT, tell_turns
from headgate.controllers.model.observed import (
    KINDS,
    Known,
    KnownPod,
    Objects,
    model_of,
    reduced,
    reduced_pod,
)
from headgate.controllers.model.settings import ModelSettings
from headgate.controllers.model.sidecar_loop import SidecarLoop
from headgate.kubeschema import timestamps

log = logging.getLogger(__name__)

GATHER_S = 0.1
"""How long to collect further changes, because they come in bursts."""
ACCESS_PATIENCE_S = 5.0
"""How long a start waits for rights that were not there at once."""
PREDECESSOR_S = 1.0
"""How often to look whether the objects of a former Model of the same name are gone."""
TAKEN_S = 15.0
"""How often to look whether an object that belongs to somebody else is gone."""
MANAGED = f"{names.MANAGED_BY}={names.GROUP}"


@dataclass(frozen=True)
class ModelStatistics:
    reconciled: int
    applied: int
    """Objects that were written."""
    corrected: int
    """Objects that somebody else had changed, and that were put back."""
    deleted: int
    statuses_written: int
    queue: cluster.WorkQueueStatistics
    objects: dict[str, int]
    sidecar_requests: int
    sidecar_failures: int


class ModelController:
    """Follows Models, their objects and their Pods."""

    def __init__(
        self,
        client: cluster.Client,
        namespaces: Sequence[str] = (),
        settings: ModelSettings | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        leadership: cluster.Leadership | None = None,
    ) -> None:
        self._client = client
        self._scopes = cluster.scopes(namespaces)
        self._settings = settings or ModelSettings()
        self._clock = clock
        self._leadership = leadership or cluster.Undisputed()
        self._models: dict[api.ObjectKey, api.Model] = {}
        self._keys: dict[str, api.ObjectKey] = {}
        """The keys of Models by their UIDs."""
        self._objects = Objects()
        self._autoscalers = Autoscalers()
        self._applier = Applier(client)
        self._queue: cluster.WorkQueue[api.ObjectKey] = cluster.WorkQueue()
        self._events = cluster.EventRecorder(client, COMPONENT, clock)
        self._sidecars = SidecarLoop(self._touch)
        self._reconciled = self._statuses = 0
        self.is_ready = False
        """Whether all objects are loaded."""

    async def run(self, workers: int = 4, on_ready: Callable[[], None] = lambda: None) -> None:
        """Run until cancelled; calls `on_ready` once all objects are loaded."""
        informers: list[cluster.Informer[Any]] = []
        for scope in self._scopes:
            informers += [self._follow(kind, scope) for kind in KINDS]
            for scaling in AUTOSCALERS:
                autoscalers: cluster.Informer[Any] = cluster.Informer(
                    self._client, scaling, scope, may_be_absent=True
                )
                autoscalers.subscribe(self._autoscaler_changed)
                informers.append(autoscalers)
            pods = cluster.Informer(
                self._client, KnownPod, scope, label_selector=MANAGED, reduced=reduced_pod
            )
            pods.subscribe(self._pod_changed)
            models = cluster.Informer(self._client, api.Model, scope, may_be_absent=True)
            models.subscribe(self._model_changed)
            informers += [pods, models]
        async with asyncio.TaskGroup() as tasks:
            for informer in informers:
                tasks.create_task(informer.run())
            # Before that, objects that exist would be taken for missing.
            await asyncio.gather(*(informer.wait_known(ACCESS_PATIENCE_S) for informer in informers))
            tasks.create_task(self._events.run())
            tasks.create_task(self._sidecars.run())
            tasks.create_task(cluster.run_workers(self._queue, self._reconcile, workers))
            self.is_ready = True
            on_ready()

    def statistics(self) -> ModelStatistics:
        applier = self._applier
        return ModelStatistics(
            self._reconciled,
            applier.writes,
            applier.corrections,
            applier.deletions,
            self._statuses,
            self._queue.statistics(),
            {"Model": len(self._models), **self._objects.statistics()},
            self._sidecars.requests,
            self._sidecars.failures,
        )

    # Following

    def _follow(self, kind: type[Any], scope: str | None) -> cluster.Informer[Any]:
        informer = cluster.Informer(
            self._client, kind, scope, label_selector=MANAGED, may_be_absent=True, reduced=reduced
        )
        informer.subscribe(self._object_changed)
        return informer

    def _model_changed(self, change: cluster.Change[api.Model]) -> None:
        model = change.object
        key = model.metadata.key
        if change.new is None:
            self._models.pop(key, None)
            self._keys.pop(model.metadata.uid, None)
            self._applier.forget(model.metadata.uid)
            self._sidecars.assign(model.metadata.uid, {})
        else:
            self._models[key] = change.new
            self._keys[model.metadata.uid] = key
        self._queue.add(key)

    def _object_changed(self, change: cluster.Change[Any]) -> None:
        for uid in self._objects.put(change):
            if change.new is None:
                self._applier.deleted(uid, change.object)
            self._touch(uid)
        # A Model of the same name may wait until this one is gone.
        if change.new is None and (name := change.object.metadata.labels.get(names.MODEL_NAME)):
            self._add(api.ObjectKey(change.object.metadata.namespace, name))

    def _pod_changed(self, change: cluster.Change[KnownPod]) -> None:
        self._touch(self._objects.put_pod(change))

    def _autoscaler_changed(self, change: cluster.Change[Any]) -> None:
        for workload in self._autoscalers.put(change):
            known = self._objects.workload(workload)
            if known is not None:
                self._touch(model_of(known.metadata))

    def _touch(self, uid: str) -> None:
        if (key := self._keys.get(uid)) is not None:
            self._add(key)

    def _add(self, key: api.ObjectKey) -> None:
        if key in self._models:
            self._queue.add_after(key, GATHER_S)

    # Reconciling

    async def _reconcile(self, key: api.ObjectKey) -> float | None:
        await self._leadership.acquired()
        model = self._models.get(key)
        if model is None or model.metadata.deletion_timestamp is not None:
            return None  # its objects go with it
        if not self._leadership.is_held():
            return GATHER_S
        self._reconciled += 1
        try:
            desired = await self._bring_about(model)
        except PredecessorError:
            return PREDECESSOR_S
        except TakenError as error:
            await self._write(model, status.failed(model, str(error), self._now()))
            return TAKEN_S
        except Exception as error:
            if _is_telling(error):
                await self._write(model, status.failed(model, _told(error), self._now()))
            raise
        return await self._write(model, self._status_of(model, desired))

    async def _bring_about(self, model: api.Model) -> Desired:
        """Make the Model's objects as they should be, and delete those that are not wanted any longer."""
        meta = model.metadata
        objects = self._objects.of(meta.uid)
        await tokens.ensure(self._client, model, self._secret_of(model))
        scaled = {
            each.metadata.name
            for each in objects.values()
            if self._autoscalers.scale(Workload(meta.namespace, each.resource.kind, each.metadata.name))
        }
        desired = desired_of(model, self._settings, objects, self._objects.pods(meta.uid), scaled)
        for child in desired.children.children:
            before = self._objects.get(meta.namespace, identity(child))
            if await self._applier.apply(model, child.kind, child.manifest, before):
                told = f"{child.kind.resource.kind} {child.name} was changed by somebody else, and put back"
                self._events.record(model, cluster.EventType.NORMAL, "PutBack", told)
        for gone in desired.unwanted:
            await self._applier.delete(model, gone)
            told = f"{gone.resource.kind} {gone.metadata.name} is not part of the Model any longer"
            self._events.record(model, cluster.EventType.NORMAL, "Deleted", told)
        return desired

    def _status_of(self, model: api.Model, desired: Desired) -> ModelStatus:
        """Gives the sidecars of the Model's Pods their work, and reports what they said so far."""
        uid, children, loop = model.metadata.uid, desired.children, self._sidecars
        pods = self._objects.pods(uid)
        token = tokens.token_of(self._secret_of(model))
        loop.assign(uid, duties.duties_of(model, children, pods, token))
        states = [
            duties.reported(state, children, pods, loop.states, loop.downloads) for state in desired.states
        ]
        return status.status_of(model, children, states, desired.leaving, self._now())

    async def _write(self, model: api.Model, due: ModelStatus) -> float | None:
        if model.status == due:
            return None
        meta = model.metadata
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": status.written(due)}
        try:
            await self._client.patch(
                api.Model, meta.name, meta.namespace, patch, subresource="status", field_manager=COMPONENT
            )
        except cluster.NotFound:
            return None  # it was deleted, which the informer will report
        except cluster.Conflict:
            return GATHER_S  # the informer will provide the newer version
        self._statuses += 1
        tell_turns(self._events, model, due)
        return None

    def _secret_of(self, model: api.Model) -> Known | None:
        key = (api.Secret.resource.plural, names.runtime_secret(model))
        return self._objects.get(model.metadata.namespace, key)

    def _now(self) -> str:
        return timestamps.seconds(self._clock().timestamp())


def _is_telling(error: Exception) -> bool:
    """Whether a person should know of the error: it is neither an outage nor about a concurrent change."""
    return not isinstance(error, cluster.Unreachable | cluster.Conflict)


def _told(error: Exception) -> str:
    if isinstance(error, cluster.ApiError):
        return str(error)
    return f"internal error, which the controller's log has in full: {type(error).__name__}: {error}"
