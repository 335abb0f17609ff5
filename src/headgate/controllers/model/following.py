"""Follows Models, their objects and Pods, and what scales them; says which Models a change concerns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from headgate import api, cluster
from headgate.controllers.model import names
from headgate.controllers.model.autoscalers import KINDS as AUTOSCALERS
from headgate.controllers.model.autoscalers import Autoscalers, Workload
from headgate.controllers.model.observed import (
    KINDS,
    Id,
    Known,
    KnownDeployment,
    KnownLeaderWorkerSet,
    KnownPod,
    KnownSecret,
    Objects,
    model_of,
    reduced,
    reduced_pod,
)

COMMON = (KnownDeployment, KnownLeaderWorkerSet, KnownSecret)
"""Kinds of which most objects have nothing to do with Models. Of the others, all are followed, so that none
of somebody else is taken over."""
MANAGED = f"{names.MANAGED_BY}={names.GROUP}"
"""Selects the objects and Pods of Models."""


class Followed:
    """What exists, as the informers show it."""

    def __init__(
        self,
        touched: Callable[[api.ObjectKey], None],
        gone: Callable[[str], None],
        deleted: Callable[[str, Known], None],
    ) -> None:
        """`touched` is called with Models that have to be looked at, `gone` with the UIDs of Models that do
        not exist any longer, and `deleted` with objects of a Model that do not."""
        self._touched = touched
        self._gone = gone
        self._deleted = deleted
        self._models: dict[api.ObjectKey, api.Model] = {}
        self._keys: dict[str, api.ObjectKey] = {}
        """The keys of Models by their UIDs."""
        self._objects = Objects()
        self._autoscalers = Autoscalers()

    def informers(self, client: cluster.Client, scopes: Sequence[str | None]) -> list[cluster.Informer[Any]]:
        """Those of all kinds, subscribed to."""
        found: list[cluster.Informer[Any]] = []
        for scope in scopes:
            for kind in KINDS:
                selector = MANAGED if kind in COMMON else None
                objects: cluster.Informer[Any] = cluster.Informer(
                    client, kind, scope, label_selector=selector, may_be_absent=True, reduced=reduced
                )
                objects.subscribe(self._object_changed)
                found.append(objects)
            for scaling in AUTOSCALERS:
                autoscalers: cluster.Informer[Any] = cluster.Informer(
                    client, scaling, scope, may_be_absent=True
                )
                autoscalers.subscribe(self._autoscaler_changed)
                found.append(autoscalers)
            pods = cluster.Informer(client, KnownPod, scope, label_selector=MANAGED, reduced=reduced_pod)
            pods.subscribe(self._pod_changed)
            models = cluster.Informer(client, api.Model, scope, may_be_absent=True)
            models.subscribe(self._model_changed)
            found += [pods, models]
        return found

    def model(self, key: api.ObjectKey) -> api.Model | None:
        return self._models.get(key)

    def objects(self, model: api.Model) -> dict[Id, Known]:
        """The objects that are the Model's."""
        return {**self._objects.of(model.metadata)}

    def object(self, model: api.Model, key: Id) -> Known | None:
        """The object of this name beside the Model, whoever it belongs to."""
        return self._objects.get(model.metadata.namespace, key)

    def pods(self, model: api.Model) -> Collection[KnownPod]:
        return self._objects.pods(model.metadata)

    def scaled(self, model: api.Model) -> set[str]:
        """Names of the Model's workloads that autoscalers scale, by their names or by that of the Model."""
        metadata = model.metadata
        is_whole = self._autoscalers.scale(Workload(metadata.namespace, model.resource.kind, metadata.name))
        return {
            each.metadata.name
            for each in self._objects.of(model.metadata).values()
            if is_whole
            or self._autoscalers.scale(
                Workload(each.metadata.namespace, each.resource.kind, each.metadata.name)
            )
        }

    def touch(self, uid: str) -> None:
        """The Model with this UID has to be looked at."""
        if (key := self._keys.get(uid)) is not None:
            self._touched(key)

    def statistics(self) -> dict[str, int]:
        """Objects by kind."""
        return {"Model": len(self._models), **self._objects.statistics()}

    def _model_changed(self, change: cluster.Change[api.Model]) -> None:
        metadata = change.object.metadata
        if change.new is None:
            self._models.pop(metadata.key, None)
            self._keys.pop(metadata.uid, None)
            self._gone(metadata.uid)
            return
        self._models[metadata.key] = change.new
        self._keys[metadata.uid] = metadata.key
        self._touched(metadata.key)

    def _object_changed(self, change: cluster.Change[Any]) -> None:
        for uid in self._objects.put(change):
            if change.new is None:
                self._deleted(uid, change.object)
            self.touch(uid)

    def _pod_changed(self, change: cluster.Change[KnownPod]) -> None:
        self.touch(self._objects.put_pod(change))

    def _autoscaler_changed(self, change: cluster.Change[Any]) -> None:
        for workload in self._autoscalers.put(change):
            if workload.kind == api.Model.resource.kind:
                self._touched(api.ObjectKey(workload.namespace, workload.name))
                continue
            known = self._objects.workload(workload)
            if known is not None:
                self.touch(model_of(known.metadata))
