"""Workloads that can be scaled, and who else decides their replicas, reduced to what the autoscaler needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, NamedTuple

import msgspec
from msgspec import field

from headgate import api
from headgate.api import apps, leaderworkersets
from headgate.api.horizontal import HorizontalPodAutoscaler
from headgate.api.meta import LabelSelector, Part


class Workload(NamedTuple):
    """Where a workload is."""

    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class _Template(Part, frozen=True, kw_only=True):
    metadata: api.ObjectMeta = api.ObjectMeta()


class _Group(Part, frozen=True, kw_only=True):
    leader_template: _Template | None = None
    worker_template: _Template = _Template()


class _Spec(Part, frozen=True, kw_only=True):
    replicas: int = 1
    selector: LabelSelector = LabelSelector()
    template: _Template = _Template()
    group: _Group = field(default=_Group(), name="leaderWorkerTemplate")


class _Status(Part, frozen=True, kw_only=True):
    replicas: int = 0
    ready_replicas: int = 0


class Scalable(Part, frozen=True, kw_only=True):
    """A workload with a scale subresource."""

    resource: ClassVar[api.Resource]

    metadata: api.ObjectMeta = api.ObjectMeta()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def place(self) -> Workload:
        return Workload(self.metadata.namespace, self.resource.kind, self.metadata.name)

    @property
    def selector(self) -> LabelSelector:
        """Selects one Pod for each replica."""
        return self.spec.selector

    @property
    def members(self) -> LabelSelector:
        """Selects all its Pods."""
        return self.selector

    @property
    def pod_labels(self) -> Mapping[str, str]:
        """Those of a new Pod that stands for a replica."""
        return self.spec.template.metadata.labels


class ScalableDeployment(Scalable, frozen=True, kw_only=True):
    resource: ClassVar[api.Resource] = api.Deployment.resource


class ScalableStatefulSet(Scalable, frozen=True, kw_only=True):
    resource: ClassVar[api.Resource] = apps.StatefulSet.resource


class ScalableLeaderWorkerSet(Scalable, frozen=True, kw_only=True):
    """A replica is a group of Pods, and its leader stands for it."""

    resource: ClassVar[api.Resource] = api.LeaderWorkerSet.resource

    @property
    def selector(self) -> LabelSelector:
        labels = {leaderworkersets.NAME: self.metadata.name, leaderworkersets.WORKER_INDEX: "0"}
        return LabelSelector(match_labels=labels)

    @property
    def members(self) -> LabelSelector:
        return LabelSelector(match_labels={leaderworkersets.NAME: self.metadata.name})

    @property
    def pod_labels(self) -> Mapping[str, str]:
        group = self.spec.group
        template = group.leader_template or group.worker_template
        return {**template.metadata.labels, **self.selector.match_labels}


KINDS: Final[tuple[type[Scalable], ...]] = (
    ScalableDeployment,
    ScalableStatefulSet,
    ScalableLeaderWorkerSet,
)
BY_KIND: Final[Mapping[tuple[str, str], type[Scalable]]] = {
    (kind.resource.group, kind.resource.kind): kind for kind in KINDS
}


def reduced(workload: Scalable) -> Scalable:
    """Without annotations, which can be long."""
    metadata = msgspec.structs.replace(workload.metadata, annotations={})
    return msgspec.structs.replace(workload, metadata=metadata)


def reduced_pod(pod: api.Pod) -> api.Pod:
    """What samples and failures of a start are made from."""
    metadata = msgspec.structs.replace(pod.metadata, annotations={}, owner_references=[])
    return msgspec.structs.replace(pod, metadata=metadata, spec=api.PodSpec())


# --- other autoscalers ----------------------------------------------------------------------------------


class _Reference(Part, frozen=True, kw_only=True):
    kind: str = ""
    name: str = ""


class _HorizontalSpec(Part, frozen=True, kw_only=True):
    scale_target_ref: _Reference = _Reference()


class _HorizontalStatus(Part, frozen=True, kw_only=True):
    last_scale_time: str | None = None
    conditions: list[api.Condition] = []


class Horizontal(Part, frozen=True, kw_only=True):
    """A HorizontalPodAutoscaler."""

    resource: ClassVar[api.Resource] = HorizontalPodAutoscaler.resource

    metadata: api.ObjectMeta = api.ObjectMeta()
    spec: _HorizontalSpec = _HorizontalSpec()
    status: _HorizontalStatus = _HorizontalStatus()

    @property
    def is_active(self) -> bool:
        """Whether something scales by it: also only to its bounds, which need no metric. At zero replicas, it
        is disabled, but the ScaledObject that KEDA has made it for is not."""
        found = next((each for each in self.status.conditions if each.type == "ScalingActive"), None)
        if found is not None and found.reason == "ScalingDisabled":
            return any(owner.kind == "ScaledObject" for owner in self.metadata.owner_references)
        return (found is not None and found.status == "True") or self.status.last_scale_time is not None


class Variant(Part, frozen=True, kw_only=True):
    """A VariantAutoscaling, which is for the workload with its name."""

    resource: ClassVar[api.Resource] = api.VariantAutoscaling.resource

    metadata: api.ObjectMeta = api.ObjectMeta()
