"""Environment, resources and scheduling constraints of containers and Pods (core/v1)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from headgate.api.meta import LabelSelector, Part, described
from headgate.kubeschema import quantity

# Sources of a container's environment variables (core/v1 EnvVar and EnvFromSource).
_ATOMIC = {"x-kubernetes-map-type": "atomic"}


class ObjectFieldSelector(Part, frozen=True, kw_only=True):
    field_path: Annotated[str, described("Path of a field of the Pod, such as status.podIP.")]
    api_version: Annotated[str, described("Version of the API that the path is written in.")] = ""


class ResourceFieldSelector(Part, frozen=True, kw_only=True):
    resource: Annotated[str, described("Request or limit to read, such as limits.memory.")]
    container_name: Annotated[str, described("Container that it belongs to. Unset: this one.")] = ""
    divisor: Annotated[
        int | str | None, described("Unit that the value is given in. Unset: 1.", **quantity.SCHEMA)
    ] = None


class KeySelector(Part, frozen=True, kw_only=True):
    """One key of a ConfigMap or Secret in the same namespace."""

    key: Annotated[str, described("Key whose value is taken.")]
    name: Annotated[str, described("Name of the object.")] = ""
    optional: Annotated[bool | None, described("Whether the object or the key may be missing.")] = None


class EnvVarSource(Part, frozen=True, kw_only=True):
    field_ref: Annotated[ObjectFieldSelector | None, described("A field of the Pod.", **_ATOMIC)] = None
    resource_field_ref: Annotated[
        ResourceFieldSelector | None, described("A resource request or limit of a container.", **_ATOMIC)
    ] = None
    config_map_key_ref: Annotated[KeySelector | None, described("A key of a ConfigMap.", **_ATOMIC)] = None
    secret_key_ref: Annotated[KeySelector | None, described("A key of a Secret.", **_ATOMIC)] = None


class EnvVar(Part, frozen=True, kw_only=True):
    name: Annotated[str, described("Name of the variable.")]
    value: Annotated[str | None, described("Its value; $(NAME) stands for a variable above.")] = None
    value_from: Annotated[EnvVarSource | None, described("Where the value comes from instead.")] = None


class EnvSource(Part, frozen=True, kw_only=True):
    """A whole ConfigMap or Secret in the same namespace."""

    name: Annotated[str, described("Name of the object.")] = ""
    optional: Annotated[bool | None, described("Whether the object may be missing.")] = None


class EnvFromSource(Part, frozen=True, kw_only=True):
    prefix: Annotated[str, described("Put before each key to make the name of the variable.")] = ""
    config_map_ref: Annotated[
        EnvSource | None, described("Every key of this ConfigMap becomes a variable.", **_ATOMIC)
    ] = None
    secret_ref: Annotated[
        EnvSource | None, described("Every key of this Secret becomes a variable.", **_ATOMIC)
    ] = None


_ATOMIC_LIST = {"x-kubernetes-list-type": "atomic"}
_ATOMIC_MAP = {"x-kubernetes-map-type": "atomic"}
_BY_NAME = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}

Amounts: TypeAlias = "dict[str, Annotated[int | str, described('How much of it.', **quantity.SCHEMA)]]"
"""Quantities by the name of a resource, such as nvidia.com/gpu."""


class ResourceClaim(Part, frozen=True, kw_only=True):
    name: Annotated[str, described("Name of a claim that the Pod has.")]
    request: Annotated[str, described("Request in the claim. Unset: all of it.")] = ""


class ResourceRequirements(Part, frozen=True, kw_only=True):
    limits: Annotated[Amounts, described("The most that the container may use.")] = {}
    requests: Annotated[Amounts, described("What is kept free for the container. Unset: its limits.")] = {}
    claims: Annotated[list[ResourceClaim], described("Devices that the container uses.", **_BY_NAME)] = []


class NodeSelectorRequirement(Part, frozen=True, kw_only=True):
    key: Annotated[str, described("Label of the node.")]
    operator: Annotated[
        Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"],
        described("How the label relates to the values."),
    ]
    values: Annotated[
        list[str],
        described("Values for In and NotIn, one number for Gt and Lt, none for the others.", **_ATOMIC_LIST),
    ] = []


class NodeSelectorTerm(Part, frozen=True, kw_only=True):
    match_expressions: Annotated[
        list[NodeSelectorRequirement], described("Labels that the node must have.", **_ATOMIC_LIST)
    ] = []
    match_fields: Annotated[
        list[NodeSelectorRequirement], described("Fields that the node must have.", **_ATOMIC_LIST)
    ] = []


class NodeSelector(Part, frozen=True, kw_only=True):
    node_selector_terms: Annotated[
        list[NodeSelectorTerm], described("A node suits if one of these holds.", **_ATOMIC_LIST)
    ]


class PreferredSchedulingTerm(Part, frozen=True, kw_only=True):
    weight: Annotated[int, described("How much a node gains by it, 1 to 100.", format="int32")]
    preference: Annotated[NodeSelectorTerm, described("What the node should be like.", **_ATOMIC_MAP)]


class NodeAffinity(Part, frozen=True, kw_only=True):
    required_during_scheduling_ignored_during_execution: Annotated[
        NodeSelector | None, described("What a node must be like.", **_ATOMIC_MAP)
    ] = None
    preferred_during_scheduling_ignored_during_execution: Annotated[
        list[PreferredSchedulingTerm], described("What a node should be like.", **_ATOMIC_LIST)
    ] = []


class PodAffinityTerm(Part, frozen=True, kw_only=True):
    topology_key: Annotated[str, described("Node label whose equal values mean the same place.")]
    label_selector: Annotated[
        LabelSelector | None, described("The other Pods that are meant. Unset: none.", **_ATOMIC_MAP)
    ] = None
    match_label_keys: Annotated[
        list[str], described("Labels whose values the other Pods must share.", **_ATOMIC_LIST)
    ] = []
    mismatch_label_keys: Annotated[
        list[str], described("Labels whose values the other Pods must not share.", **_ATOMIC_LIST)
    ] = []
    namespaces: Annotated[
        list[str], described("Namespaces of the other Pods. Unset: this one.", **_ATOMIC_LIST)
    ] = []
    namespace_selector: Annotated[
        LabelSelector | None, described("The same by labels of the namespaces.", **_ATOMIC_MAP)
    ] = None


class WeightedPodAffinityTerm(Part, frozen=True, kw_only=True):
    weight: Annotated[int, described("How much a place gains or loses by it, 1 to 100.", format="int32")]
    pod_affinity_term: Annotated[PodAffinityTerm, described("Which Pods, and what counts as one place.")]


class PodAffinity(Part, frozen=True, kw_only=True):
    """Other Pods to be close to (affinity) or away from (anti-affinity)."""

    required_during_scheduling_ignored_during_execution: Annotated[
        list[PodAffinityTerm], described("Terms that must hold.", **_ATOMIC_LIST)
    ] = []
    preferred_during_scheduling_ignored_during_execution: Annotated[
        list[WeightedPodAffinityTerm], described("Terms that should hold, by weight.", **_ATOMIC_LIST)
    ] = []


class Affinity(Part, frozen=True, kw_only=True):
    node_affinity: Annotated[NodeAffinity | None, described("Which nodes suit.")] = None
    pod_affinity: Annotated[PodAffinity | None, described("Pods that it should be near.")] = None
    pod_anti_affinity: Annotated[PodAffinity | None, described("Pods that it should be away from.")] = None


class Toleration(Part, frozen=True, kw_only=True):
    key: Annotated[str, described("Key of the taint. Unset: every taint.")] = ""
    operator: Annotated[
        Literal["Exists", "Equal"] | None, described("Whether the value of the taint matters. Unset: Equal.")
    ] = None
    value: Annotated[str, described("Value of the taint.")] = ""
    effect: Annotated[
        Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None,
        described("What the taint does. Unset: anything."),
    ] = None
    toleration_seconds: Annotated[
        int | None, described("How long the Pod may stay with a taint that evicts. Unset: for ever.")
    ] = None
