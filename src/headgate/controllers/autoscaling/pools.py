"""The pools by which requests reach a workload: those that would select a new Pod of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, NamedTuple, TypeAlias

import msgspec

from headgate import api, cluster
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


class PoolId(NamedTuple):
    """Which pool it is."""

    group: str
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, pool: KnownPool) -> PoolId:
        resource, metadata = pool.resource, pool.metadata
        return cls(resource.group, resource.kind, metadata.namespace, metadata.name)


def reduced(pool: KnownPool) -> KnownPool:
    kept = {key: value for key, value in pool.metadata.annotations.items() if key.startswith(_KEPT)}
    metadata = msgspec.structs.replace(pool.metadata, annotations=kept, labels={}, owner_references=[])
    return msgspec.structs.replace(pool, metadata=metadata)


class Pools:
    """Pools by the labels that they select. Finding those of a workload compares a few of them."""

    def __init__(self) -> None:
        self._pools: dict[PoolId, KnownPool] = {}
        self._selections: Selections[PoolId] = Selections(lambda _: None)

    def __len__(self) -> int:
        return len(self._pools)

    def put(self, change: cluster.Change[KnownPool]) -> None:
        pool = PoolId.of(change.object)
        if change.new is None:
            self._pools.pop(pool, None)
            self._selections.select(pool, pool.namespace, {})
            return
        self._pools[pool] = change.new
        self._selections.select(pool, pool.namespace, change.new.labels)

    def get(self, pool: PoolId) -> KnownPool | None:
        return self._pools.get(pool)

    def of(self, workload: Scalable) -> list[PoolId]:
        """Those that would select a new Pod of the workload."""
        metadata = api.ObjectMeta(namespace=workload.metadata.namespace, labels=dict(workload.pod_labels))
        return sorted(self._selections.selecting(api.Pod(metadata=metadata)))
