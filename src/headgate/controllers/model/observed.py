"""What exists of each Model: its objects and Pods, reduced to what the controller compares and reports."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

import msgspec
from msgspec import field

from headgate import api, cluster
from headgate.api.meta import Part
from headgate.controllers.model import names
from headgate.controllers.model.autoscalers import Workload

OWN_ANNOTATIONS = "headgate.dev/"
"""Annotations that are kept of an object have this prefix."""


class Known(Part, frozen=True, kw_only=True):
    """An object of a Model. Drift of its spec shows in its generation."""

    resource: ClassVar[api.Resource]

    metadata: api.ObjectMeta = api.ObjectMeta()


class KnownServer(Known, frozen=True, kw_only=True):
    resource: ClassVar[api.Resource] = api.ModelServer.resource


class KnownRouteSpec(Part, frozen=True, kw_only=True):
    model_name: str = ""
    lora_adapters: list[str] = []


class KnownRoute(Known, frozen=True, kw_only=True):
    resource: ClassVar[api.Resource] = api.ModelRoute.resource

    spec: KnownRouteSpec = KnownRouteSpec()


class KnownPolicy(Known, frozen=True, kw_only=True):
    resource: ClassVar[api.Resource] = api.AutoscalingPolicy.resource


class KnownBinding(Known, frozen=True, kw_only=True):
    resource: ClassVar[api.Resource] = api.AutoscalingPolicyBinding.resource


class KnownSecret(Known, frozen=True, kw_only=True):
    resource: ClassVar[api.Resource] = api.Secret.resource

    data: dict[str, str] = {}


class WorkloadSpec(Part, frozen=True, kw_only=True):
    replicas: int = 1


class WorkloadStatus(Part, frozen=True, kw_only=True):
    replicas: int = 0
    ready_replicas: int = 0
    conditions: list[api.Condition] = []


class KnownWorkload(Known, frozen=True, kw_only=True):
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    @property
    def failure(self) -> str:
        """Why Pods cannot be created, such as a quota; empty if they can."""
        failed = (each for each in self.status.conditions if each.type == "ReplicaFailure")
        return next((each.message for each in failed if each.status == "True"), "")


class KnownDeployment(KnownWorkload, frozen=True, kw_only=True):
    resource: ClassVar[api.Resource] = api.Deployment.resource


class KnownLeaderWorkerSet(KnownWorkload, frozen=True, kw_only=True):
    resource: ClassVar[api.Resource] = api.LeaderWorkerSet.resource


KINDS: Final[tuple[type[Known], ...]] = (
    KnownDeployment,
    KnownLeaderWorkerSet,
    KnownServer,
    KnownRoute,
    KnownPolicy,
    KnownBinding,
    KnownSecret,
)
BY_PLURAL: Final[Mapping[str, type[Known]]] = {kind.resource.plural: kind for kind in KINDS}
WORKLOADS: Final = frozenset(kind.resource.plural for kind in KINDS if issubclass(kind, KnownWorkload))


_decode_adapters = msgspec.json.Decoder(dict[str, str]).decode


class KnownPodStatus(Part, frozen=True, kw_only=True):
    phase: str = ""
    message: str = ""
    reason: str = ""
    conditions: list[api.Condition] = []
    pod_ip: str = field(default="", name="podIP")
    init_container_statuses: list[api.ContainerStatus] = []
    container_statuses: list[api.ContainerStatus] = []


class KnownPod(Part, frozen=True, kw_only=True):
    """A Pod of a Model, without its spec."""

    resource: ClassVar[api.Resource] = api.Pod.resource

    metadata: api.ObjectMeta = api.ObjectMeta()
    status: KnownPodStatus = KnownPodStatus()

    @property
    def is_ready(self) -> bool:
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)

    @property
    def start_adapters(self) -> Mapping[str, str]:
        """Digests of the sources of adapters that its engine loads at its start, by their names."""
        try:
            return _decode_adapters(self.metadata.annotations.get(names.ADAPTERS, "{}"))
        except (msgspec.MsgspecError, UnicodeEncodeError):
            return {}  # somebody has changed it

    @property
    def is_leaving(self) -> bool:
        return self.metadata.deletion_timestamp is not None


def reduced(obj: Known) -> Known:
    """The object without what other controllers note on it."""
    return msgspec.structs.replace(obj, metadata=_reduced(obj.metadata))


def reduced_pod(pod: KnownPod) -> KnownPod:
    adapters = pod.metadata.annotations.get(names.ADAPTERS)
    # Pods of one revision share it.
    kept = {names.ADAPTERS: sys.intern(adapters)} if adapters else {}
    metadata = msgspec.structs.replace(pod.metadata, annotations=kept, owner_references=[])
    return msgspec.structs.replace(pod, metadata=metadata)


def _reduced(metadata: api.ObjectMeta) -> api.ObjectMeta:
    kept = {key: value for key, value in metadata.annotations.items() if key.startswith(OWN_ANNOTATIONS)}
    return msgspec.structs.replace(metadata, annotations=kept)


def owner_of(metadata: api.ObjectMeta) -> api.OwnerReference | None:
    """The object that manages this one."""
    return next((each for each in metadata.owner_references if each.controller), None)


Key = TypeVar("Key")
V = TypeVar("V")

Id: TypeAlias = tuple[str, str]
"""Plural and name of an object of a Model, which is in the Model's namespace."""
_Place: TypeAlias = tuple[str, str]
"""Namespace and UID of a Model."""


class Objects:
    """Objects and Pods by the Model that they belong to: the one that they name as their owner, or else, so
    that a removed owner is put back, in their label. Both can be copied, and so only those in the namespace
    of the Model are its own: a Pod of somebody else would get its token."""

    def __init__(self) -> None:
        self._all: dict[tuple[str, Id], Known] = {}
        """By namespace, plural and name."""
        self._children: dict[_Place, dict[Id, Known]] = {}
        """By namespace and UID of the Model."""
        self._pods: dict[_Place, dict[str, KnownPod]] = {}

    def put(self, change: cluster.Change[Any]) -> set[str]:
        """Take over a change; returns the UIDs of the Models that it concerns."""
        obj: Known = change.object
        key = (obj.resource.plural, obj.metadata.name)
        namespace = obj.metadata.namespace
        place = (namespace, key)
        touched = set()
        if change.old is not None:
            self._all.pop(place, None)
            touched.add(model_of(change.old.metadata))
            _drop(self._children, (namespace, model_of(change.old.metadata)), key)
        if change.new is not None:
            self._all[place] = change.new
            touched.add(model_of(change.new.metadata))
            if uid := model_of(change.new.metadata):
                self._children.setdefault((namespace, uid), {})[key] = change.new
        return touched

    def put_pod(self, change: cluster.Change[KnownPod]) -> str:
        """The same with a Pod."""
        pod = change.object
        namespace, uid = pod.metadata.namespace, pod.metadata.labels.get(names.MODEL_UID, "")
        if change.old is not None:
            before = change.old.metadata.labels.get(names.MODEL_UID, "")
            _drop(self._pods, (namespace, before), pod.metadata.name)
        if change.new is not None:
            self._pods.setdefault((namespace, uid), {})[pod.metadata.name] = change.new
        return uid

    def get(self, namespace: str, key: Id) -> Known | None:
        """The object of this name, whichever Model it belongs to."""
        return self._all.get((namespace, key))

    def of(self, model: api.ObjectMeta) -> Mapping[Id, Known]:
        """The objects of the Model with this metadata."""
        return self._children.get((model.namespace, model.uid), {})

    def workload(self, place: Workload) -> KnownWorkload | None:
        """The workload of this namespace, kind and name."""
        for kind in (KnownDeployment, KnownLeaderWorkerSet):
            if kind.resource.kind == place.kind:
                found = self.get(place.namespace, (kind.resource.plural, place.name))
                return found if isinstance(found, KnownWorkload) else None
        return None

    def pods(self, model: api.ObjectMeta) -> Collection[KnownPod]:
        """The Pods of the Model with this metadata, of all its backends."""
        return self._pods.get((model.namespace, model.uid), {}).values()

    def statistics(self) -> dict[str, int]:
        found = dict.fromkeys((kind.resource.kind for kind in KINDS), 0)
        for of_model in self._children.values():
            for child in of_model.values():
                found[child.resource.kind] += 1
        return {**found, "Pod": sum(map(len, self._pods.values()))}


def _drop(held: dict[_Place, dict[Key, V]], place: _Place, key: Key) -> None:
    of_model = held.get(place, {})
    of_model.pop(key, None)
    if not of_model:
        held.pop(place, None)


def model_of(metadata: api.ObjectMeta) -> str:
    """The UID of the Model that an object belongs to."""
    owner = owner_of(metadata)
    if owner is not None and owner.kind == api.Model.resource.kind:
        return owner.uid
    return metadata.labels.get(names.MODEL_UID, "")
