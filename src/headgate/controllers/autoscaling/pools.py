"""The pools by which requests reach a workload: those that would select a new Pod of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Final, TypeAlias

import msgspec

from headgate import api, cluster, routing
from headgate.api import gie_v1, gie_v1alpha1
from headgate.api.meta import LabelSelector, Part
from headgate.controllers.autoscaling.workloads import Scalable
from headgate.routing.selections import Selections


class PoolServer(Part, frozen=True, kw_only=True):
    """A ModelServer."""

    class Spec(Part, frozen=True, kw_only=True):
        workload_selector: LabelSelector = LabelSelector()

    resource: ClassVar[api.Resource] = api.ModelServer.resource

    metadata: api.ObjectMeta = api.ObjectMeta()
    spec: Spec = Spec()

    @property
    def labels(self) -> Mapping[str, str]:
        return self.spec.workload_selector.match_labels


class PoolV1(Part, frozen=True, kw_only=True):
    """An InferencePool of v1."""

    class Spec(Part, frozen=True, kw_only=True):
        selector: LabelSelector = LabelSelector()

    resource: ClassVar[api.Resource] = gie_v1.InferencePool.resource

    metadata: api.ObjectMeta = api.ObjectMeta()
    spec: Spec = Spec()

    @property
    def labels(self) -> Mapping[str, str]:
        return self.spec.selector.match_labels


class PoolV1Alpha(Part, frozen=True, kw_only=True):
    """An InferencePool of v1alpha1 or v1alpha2."""

    class Spec(Part, frozen=True, kw_only=True):
        selector: dict[str, str] = {}

    resource: ClassVar[api.Resource] = gie_v1alpha1.InferencePool.resource

    metadata: api.ObjectMeta = api.ObjectMeta()
    spec: Spec = Spec()

    @property
    def labels(self) -> Mapping[str, str]:
        return self.spec.selector


KnownPool: TypeAlias = PoolServer | PoolV1 | PoolV1Alpha
KINDS: Final[tuple[type[KnownPool], ...]] = (PoolServer, PoolV1, PoolV1Alpha)
_KEPT: Final = "headgate.dev/"


_NAMES: Final[Mapping[type[KnownPool], str]] = {
    PoolServer: routing.MODEL_SERVER,
    PoolV1: routing.INFERENCE_POOL,
    PoolV1Alpha: routing.INFERENCE_POOL_V1ALPHA1,
}


def ref_of(pool: KnownPool) -> api.ObjectRef:
    """The pool as gateways name it."""
    return api.ObjectRef(_NAMES[type(pool)], *pool.metadata.key)


def reduced(pool: KnownPool) -> KnownPool:
    kept = {key: value for key, value in pool.metadata.annotations.items() if key.startswith(_KEPT)}
    metadata = msgspec.structs.replace(pool.metadata, annotations=kept, labels={}, owner_references=[])
    return msgspec.structs.replace(pool, metadata=metadata)


def is_to_serve(pod: api.Pod) -> bool:
    """Whether it is neither leaving nor has ended."""
    return pod.metadata.deletion_timestamp is None and pod.status.phase not in ("Succeeded", "Failed")


class Pools:
    """Pools by the labels that they select. Finding those of a workload compares a few of them."""

    def __init__(self, selections: Selections[Any]) -> None:
        """`selections` has the Pods, and selectors of others."""
        self._pools: dict[api.ObjectRef, KnownPool] = {}
        self._selections = selections

    def __len__(self) -> int:
        return len(self._pools)

    def put(self, change: cluster.Change[KnownPool]) -> None:
        pool = ref_of(change.object)
        if change.new is None:
            self._pools.pop(pool, None)
            self._selections.select(pool, pool.namespace, {})
            return
        self._pools[pool] = change.new
        if change.old is None or change.old.labels != change.new.labels:
            self._selections.select(pool, pool.namespace, change.new.labels)

    def get(self, pool: api.ObjectRef) -> KnownPool | None:
        return self._pools.get(pool)

    def all(self) -> Collection[KnownPool]:
        return self._pools.values()

    def of(self, workload: Scalable) -> list[api.ObjectRef]:
        """Those that would select a new Pod of the workload."""
        metadata = api.ObjectMeta(namespace=workload.metadata.namespace, labels=dict(workload.pod_labels))
        selecting = self._selections.selecting(api.Pod(metadata=metadata))
        return sorted(each for each in selecting if isinstance(each, api.ObjectRef))

    def share(self, pool: api.ObjectRef, own: Collection[LabelSelector]) -> float | None:
        """The part of its ready Pods that one of these selects; 1 if none is ready. None if all of theirs are
        still to be ready: what these will have to do is not what the others do."""
        ready = mine = coming = 0
        for pod in self._selections.pods(pool):
            is_mine = any(each.matches(pod.metadata.labels) for each in own)
            ready += pod.ready
            mine += pod.ready and is_mine
            coming += is_mine and not pod.ready and is_to_serve(pod)
        if ready and coming and not mine:
            return None
        return mine / ready if mine < ready else 1.0
