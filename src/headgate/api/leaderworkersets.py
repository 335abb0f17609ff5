"""LeaderWorkerSet (leaderworkerset.x-k8s.io/v1): groups of Pods that serve as one replica.

The kind belongs to the project LWS. In a cluster, its controller acts on it; beside the embedded API server,
the node's controllers do.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import Meta, field

from headgate.api.apps import PodTemplateSpec
from headgate.api.core import IntOrString
from headgate.api.meta import Condition, ObjectMeta, Part, Resource, described

GROUP = "leaderworkerset.x-k8s.io"

_PREFIX = "leaderworkerset.sigs.k8s.io/"

NAME = f"{_PREFIX}name"
"""Label of each Pod of a set: the set's name."""

GROUP_INDEX = f"{_PREFIX}group-index"
"""Label of each Pod: number of its group, from 0."""

WORKER_INDEX = f"{_PREFIX}worker-index"
"""Label of each Pod: its number in the group; 0 is the leader."""

GROUP_KEY = f"{_PREFIX}group-key"
"""Label of each Pod: a hash that only the Pods of its group share."""

REVISION = f"{_PREFIX}template-revision-hash"
"""Label of each Pod: identifies the template that it was created from."""

SUBGROUP_INDEX = f"{_PREFIX}subgroup-index"
"""Label of each Pod of a set with a subGroupPolicy: number of its subgroup."""

SUBGROUP_KEY = f"{_PREFIX}subgroup-key"
"""Label of each Pod of a set with a subGroupPolicy: a hash that only the Pods of its subgroup share."""

SIZE = f"{_PREFIX}size"
"""Annotation of each Pod: number of Pods in its group."""

LEADER_NAME = f"{_PREFIX}leader-name"
"""Annotation of each worker: name of its leader."""

LEADER_ADDRESS = "LWS_LEADER_ADDRESS"
"""Environment variable of each container: where the leader is reached."""

GROUP_SIZE = "LWS_GROUP_SIZE"
"""Environment variable of each container: number of Pods in the group."""

INDEX_IN_GROUP = "LWS_WORKER_INDEX"
"""Environment variable of each container: the Pod's number in the group."""

_ROLLING: Final[dict[str, Any]] = {"partition": 0, "maxUnavailable": 1, "maxSurge": 0}
_STRATEGY: Final[dict[str, Any]] = {"type": "RollingUpdate", "rollingUpdateConfiguration": _ROLLING}


def _is_limit(name: str) -> dict[str, str]:
    return {
        "rule": f"!has(self.{name}) || (type(self.{name}) == int ? self.{name} >= 0"
        f" : self.{name}.matches('^(100|[0-9]{{1,2}})%$'))",
        "message": "must be a number that is not negative, or a percentage up to 100%",
        "fieldPath": f".{name}",
    }


class RollingUpdateConfiguration(Part, frozen=True, kw_only=True):
    validations: ClassVar[list[dict[str, str]]] = [
        _is_limit("maxUnavailable"),
        _is_limit("maxSurge"),
        {
            "rule": "!(self.maxUnavailable == 0 || self.maxUnavailable == '0%')"
            " || !(self.maxSurge == 0 || self.maxSurge == '0%')",
            "message": "must not be 0 when maxSurge is 0",
            "fieldPath": ".maxUnavailable",
        },
    ]

    partition: Annotated[
        Annotated[int, Meta(ge=0)],
        described("Groups with a lower number keep their template.", format="int32", default=0),
    ] = 0
    max_unavailable: Annotated[
        IntOrString,
        described("Groups that may be missing during a rollout: a number, or a percentage, rounded down."),
    ] = 1
    max_surge: Annotated[
        IntOrString,
        described(
            "Groups that may be there in addition during a rollout: a number, or a percentage, rounded up.",
            default=0,
        ),
    ] = 0


class RolloutStrategy(Part, frozen=True, kw_only=True):
    type: Annotated[Literal["RollingUpdate"], described("How a new template replaces the old.")] = (
        "RollingUpdate"
    )
    rolling_update_configuration: Annotated[
        RollingUpdateConfiguration, described("Limits of a rollout.", default=_ROLLING)
    ] = RollingUpdateConfiguration()


class SubGroupPolicy(Part, frozen=True, kw_only=True):
    sub_group_size: Annotated[
        Annotated[int, Meta(ge=1)],
        described("Pods in a subgroup: divides the size, or the size without the leader.", format="int32"),
    ]
    type: Annotated[
        Literal["LeaderWorker", "LeaderExcluded"],
        described("Whether the leader belongs to the first subgroup or to none."),
    ] = field(default="LeaderWorker", name="subGroupPolicyType")


class LeaderWorkerTemplate(Part, frozen=True, kw_only=True):
    worker_template: Annotated[PodTemplateSpec, described("What the workers look like.")]
    leader_template: Annotated[
        PodTemplateSpec | None, described("What the leaders look like; as the workers if unset.")
    ] = None
    size: Annotated[
        Annotated[int, Meta(ge=1)],
        described("Number of Pods in a group, including its leader.", format="int32"),
    ] = 1
    restart_policy: Annotated[
        Literal["RecreateGroupOnPodRestart", "None", "Default"],
        described(
            "What happens when a Pod of a group is deleted or one of its containers restarts: the whole "
            "group is recreated, or only what failed is replaced. Default is a former name of None."
        ),
    ] = "RecreateGroupOnPodRestart"
    sub_group_policy: Annotated[
        SubGroupPolicy | None, described("Divides each group into subgroups, by labels.")
    ] = None


class NetworkConfig(Part, frozen=True, kw_only=True):
    subdomain_policy: Annotated[
        Literal["Shared", "UniquePerReplica"],
        described("Whether there is one headless Service for all groups or one for each."),
    ] = "Shared"


class LeaderWorkerSetSpec(Part, frozen=True, kw_only=True):
    leader_worker_template: Annotated[LeaderWorkerTemplate, described("What a group looks like.")]
    replicas: Annotated[
        Annotated[int, Meta(ge=0)], described("How many groups are wanted.", format="int32")
    ] = 1
    rollout_strategy: Annotated[
        RolloutStrategy, described("How a new template replaces the old.", default=_STRATEGY)
    ] = RolloutStrategy()
    startup_policy: Annotated[
        Literal["LeaderCreated", "LeaderReady"],
        described("Whether workers are created with their leader, or once it is ready."),
    ] = "LeaderCreated"
    network_config: Annotated[
        NetworkConfig, described("Names of the Pods in DNS.", default={"subdomainPolicy": "Shared"})
    ] = NetworkConfig()


class LeaderWorkerSetStatus(Part, frozen=True, kw_only=True):
    replicas: Annotated[int, described("Groups that exist.", format="int32")] = 0
    ready_replicas: Annotated[int, described("Groups of which all Pods are ready.", format="int32")] = 0
    updated_replicas: Annotated[int, described("Groups with the current template.", format="int32")] = 0
    hpa_pod_selector: Annotated[str, described("Selects the leaders, for a HorizontalPodAutoscaler.")] = (
        field(default="", name="hpaPodSelector")
    )
    conditions: Annotated[list[Condition], described("Available, Progressing, UpdateInProgress.")] = []


class LeaderWorkerSet(Part, frozen=True, kw_only=True):
    """LeaderWorkerSet keeps a number of groups running, each with a leader and workers."""

    validations: ClassVar[list[dict[str, str]]] = [
        {
            "rule": "self.metadata.name.size() <= 63"
            " && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "message": "metadata.name must have at most 63 lower case letters, digits or '-', begin with a "
            "letter and end with a letter or digit: it becomes the name of a Service",
        }
    ]

    resource: ClassVar[Resource] = Resource(GROUP, "v1", "LeaderWorkerSet", "leaderworkersets")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[LeaderWorkerSetSpec, described("What is wanted.")]
    status: Annotated[LeaderWorkerSetStatus, described("What is observed.")] = LeaderWorkerSetStatus()
