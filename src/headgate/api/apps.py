"""Kubernetes' workloads (apps/v1) and its Lease, limited to the fields that Headgate uses."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from headgate.api.core import IntOrString, PodSpec
from headgate.api.meta import Condition, LabelSelector, ObjectMeta, Part, Resource, described

_BY_TYPE = {"x-kubernetes-patch-merge-key": "type", "x-kubernetes-patch-strategy": "merge"}
_INT_OR_STRING = {"x-kubernetes-int-or-string": True}


class PodTemplateSpec(Part, frozen=True, kw_only=True):
    metadata: Annotated[ObjectMeta, described("Labels and annotations of the Pods.")] = ObjectMeta()
    spec: Annotated[PodSpec, described("What the Pods run.")] = PodSpec()


class RollingUpdateDeployment(Part, frozen=True, kw_only=True):
    max_unavailable: Annotated[
        IntOrString, described("How many Pods may be missing during a rollout.", **_INT_OR_STRING)
    ] = "25%"
    max_surge: Annotated[
        IntOrString, described("How many Pods may be there besides during a rollout.", **_INT_OR_STRING)
    ] = "25%"


class DeploymentStrategy(Part, frozen=True, kw_only=True):
    type: Annotated[
        Literal["RollingUpdate", "Recreate"], described("Whether old Pods go one by one or all at once.")
    ] = "RollingUpdate"
    rolling_update: Annotated[RollingUpdateDeployment | None, described("Limits of a rollout.")] = None


class DeploymentSpec(Part, frozen=True, kw_only=True):
    selector: Annotated[LabelSelector, described("Which Pods belong to the Deployment.")]
    template: Annotated[PodTemplateSpec, described("What the Pods look like.")]
    replicas: Annotated[int, described("How many Pods are wanted.", format="int32")] = 1
    strategy: Annotated[
        DeploymentStrategy,
        described("How a new template replaces the old.", **{"x-kubernetes-patch-strategy": "retainKeys"}),
    ] = DeploymentStrategy()
    min_ready_seconds: Annotated[int, described("A Pod counts as available after being ready this long.")] = 0
    revision_history_limit: Annotated[int, described("Old ReplicaSets that are kept.")] = 10
    progress_deadline_seconds: Annotated[int, described("A rollout that takes longer has failed.")] = 600
    paused: Annotated[bool, described("Whether template changes wait.")] = False


class DeploymentCondition(Condition, frozen=True, kw_only=True):
    last_update_time: Annotated[str | None, described("When the condition was last written.")] = None


class DeploymentStatus(Part, frozen=True, kw_only=True):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    conditions: Annotated[list[DeploymentCondition], described("Available, Progressing.", **_BY_TYPE)] = []


class Deployment(Part, frozen=True, kw_only=True):
    """Deployment keeps a number of equal Pods running and replaces them when their template changes."""

    resource: ClassVar[Resource] = Resource("apps", "v1", "Deployment", "deployments")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[DeploymentSpec, described("What is wanted.")]
    status: Annotated[DeploymentStatus, described("What is observed.")] = DeploymentStatus()


class ReplicaSetSpec(Part, frozen=True, kw_only=True):
    selector: Annotated[LabelSelector, described("Which Pods belong to the ReplicaSet.")]
    replicas: Annotated[int, described("How many Pods are wanted.", format="int32")] = 1
    template: Annotated[PodTemplateSpec, described("What the Pods look like.")] = PodTemplateSpec()
    min_ready_seconds: Annotated[int, described("A Pod counts as available after being ready this long.")] = 0


class ReplicaSetStatus(Part, frozen=True, kw_only=True):
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0


class ReplicaSet(Part, frozen=True, kw_only=True):
    """ReplicaSet keeps a number of equal Pods running, one set for each revision of a Deployment."""

    resource: ClassVar[Resource] = Resource("apps", "v1", "ReplicaSet", "replicasets")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ReplicaSetSpec, described("What is wanted.")]
    status: Annotated[ReplicaSetStatus, described("What is observed.")] = ReplicaSetStatus()


class ControllerRevision(Part, frozen=True, kw_only=True):
    """ControllerRevision keeps a former or the present state of an object for its controller."""

    resource: ClassVar[Resource] = Resource("apps", "v1", "ControllerRevision", "controllerrevisions")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    revision: Annotated[int, described("Number of the revision; a later one is higher.")]
    data: Annotated[dict[str, Any], described("What the controller keeps of the object.")] = {}


class LeaseSpec(Part, frozen=True, kw_only=True):
    holder_identity: Annotated[str | None, described("Who holds the lease.")] = None
    lease_duration_seconds: Annotated[int | None, described("How long it holds without renewal.")] = None
    acquire_time: Annotated[str | None, described("When the holder got it.")] = None
    renew_time: Annotated[str | None, described("When the holder last renewed it.")] = None
    lease_transitions: Annotated[int | None, described("How often the holder changed.")] = None


class Lease(Part, frozen=True, kw_only=True):
    """Lease lets one of several processes lead."""

    resource: ClassVar[Resource] = Resource("coordination.k8s.io", "v1", "Lease", "leases")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[LeaseSpec, described("Who leads, and until when.")] = LeaseSpec()


class StatefulSetSpec(Part, frozen=True, kw_only=True):
    selector: Annotated[LabelSelector, described("Which Pods belong to the StatefulSet.")]
    template: Annotated[PodTemplateSpec, described("What the Pods look like.")]
    replicas: Annotated[int, described("How many Pods are wanted.", format="int32")] = 1
    service_name: Annotated[str, described("Service that gives each Pod a name of its own.")] = ""
    pod_management_policy: Annotated[
        Literal["OrderedReady", "Parallel"],
        described("Whether Pods start one after the other or all at once."),
    ] = "OrderedReady"
    min_ready_seconds: Annotated[int, described("A Pod counts as available after being ready this long.")] = 0
    revision_history_limit: Annotated[int, described("Old revisions that are kept.")] = 10


class StatefulSetStatus(Part, frozen=True, kw_only=True):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    conditions: Annotated[list[Condition], described("What is observed of it.", **_BY_TYPE)] = []


class StatefulSet(Part, frozen=True, kw_only=True):
    """StatefulSet keeps a number of Pods running that have names, and storage, of their own."""

    resource: ClassVar[Resource] = Resource("apps", "v1", "StatefulSet", "statefulsets")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[StatefulSetSpec, described("What is wanted.")]
    status: Annotated[StatefulSetStatus, described("What is observed.")] = StatefulSetStatus()
