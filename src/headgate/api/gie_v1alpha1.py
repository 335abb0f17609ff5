"""The first dialect of the Gateway API Inference Extension: InferencePool and InferenceModel.

An InferencePool is a set of Pods that serve one base model; an InferenceModel sends requests for a model name
to a pool, gives them a criticality, and splits them among adapters or versions.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from headgate.api.expressions import MODEL_NAME
from headgate.api.meta import (
    BY_TYPE,
    KIND,
    LABEL_KEYS,
    LABEL_VALUE,
    OBJECT_NAME,
    Condition,
    ObjectMeta,
    Part,
    Resource,
    described,
)
from headgate.api.meta import GROUP as GROUP_NAME

GROUP, VERSION = "inference.networking.x-k8s.io", "v1alpha1"


class InferencePoolSpec(Part, frozen=True, kw_only=True):
    selector: Annotated[
        dict[str, Annotated[str, described("The value that a Pod's label must have.", **LABEL_VALUE)]],
        described("Labels that every Pod of the pool has, in the namespace of the pool.", **LABEL_KEYS),
    ]
    target_port_number: Annotated[
        int,
        Meta(ge=0, le=65535),
        described("Port that the model servers of the pool listen on.", format="int32"),
    ]


class InferencePoolStatus(Part, frozen=True, kw_only=True):
    conditions: Annotated[
        list[Condition], described("What was found out about the pool, one per type.", **BY_TYPE)
    ] = []


class InferencePool(Part, frozen=True, kw_only=True):
    """InferencePool is a set of Pods that serve one base model on one port."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "InferencePool", "inferencepools")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[InferencePoolSpec, described("Which Pods, and on which port.")]
    status: Annotated[InferencePoolStatus | None, described("What is observed.")] = None


class PoolObjectReference(Part, frozen=True, kw_only=True):
    group: Annotated[str, described("API group of the pool.", **GROUP_NAME)] = GROUP
    kind: Annotated[str, described("Kind of the pool.", **KIND)] = "InferencePool"
    name: Annotated[str, described("Name of the pool.", **OBJECT_NAME)]


class TargetModel(Part, frozen=True, kw_only=True):
    name: Annotated[
        str,
        Meta(max_length=253),
        described("Name of the adapter or base model, as the model servers know it.", **MODEL_NAME),
    ] = ""
    weight: Annotated[
        int,
        Meta(ge=0, le=1_000_000),
        described(
            "Share of the requests, relative to the weights beside it. One target of weight 0 alone reserves "
            "the model name: its requests are refused.",
            format="int32",
        ),
    ] = 1


WEIGHTS_FOR_ALL = "Weights should be set for all models, or none of the models."
"""Why some weights are rejected. The rule itself never rejects them: it sees a missing weight as 1."""

_WEIGHTS = {
    "x-kubernetes-validations": [
        {
            "rule": "self.all(model, has(model.weight)) || self.all(model, !has(model.weight))",
            "message": WEIGHTS_FOR_ALL,
        }
    ]
}


class InferenceModelSpec(Part, frozen=True, kw_only=True):
    model_name: Annotated[
        str,
        Meta(max_length=253),
        described(
            "The `model` of the requests; of several in one pool the oldest object is served.", **MODEL_NAME
        ),
    ] = ""
    criticality: Annotated[
        Literal["Critical", "Default", "Sheddable"],
        described("What is shed first when the pool is full: Sheddable, then Default, then Critical."),
    ] = "Default"
    target_models: Annotated[
        list[TargetModel],
        Meta(max_length=10),
        described(
            "Models that share the requests, by weight: set all weights, or none. Without models: the model "
            "name itself.",
            **_WEIGHTS,
        ),
    ] = []
    pool_ref: Annotated[PoolObjectReference, described("The pool that serves, in the same namespace.")]


class InferenceModelStatus(Part, frozen=True, kw_only=True):
    conditions: Annotated[
        list[Condition], described("What was found out about the model, one per type.", **BY_TYPE)
    ] = []


class InferenceModel(Part, frozen=True, kw_only=True):
    """InferenceModel sends the requests for a model name to an InferencePool."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "InferenceModel", "inferencemodels")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[InferenceModelSpec, described("Which requests, how important, and where to.")]
    status: Annotated[InferenceModelStatus | None, described("What is observed.")] = None
