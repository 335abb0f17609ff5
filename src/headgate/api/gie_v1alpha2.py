"""The later experimental dialect of the Gateway API Inference Extension.

An InferenceObjective gives a priority to the requests that name it; flow control serves higher ones first. An
InferenceModelRewrite gives the requests of a pool another model name.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from headgate.api.meta import BY_TYPE, KIND, OBJECT_NAME, Condition, ObjectMeta, Part, Resource, described
from headgate.api.meta import GROUP as GROUP_NAME

GROUP, VERSION = "inference.networking.x-k8s.io", "v1alpha2"


def _untouched(condition: str) -> list[dict[str, str]]:
    """The default conditions of an object that no controller has seen."""
    return [
        {
            "type": condition,
            "status": "Unknown",
            "reason": "Pending",
            "message": "Waiting for controller",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        }
    ]


class PoolObjectReference(Part, frozen=True, kw_only=True):
    group: Annotated[str, described("API group of the pool.", **GROUP_NAME)] = "inference.networking.k8s.io"
    kind: Annotated[str, described("Kind of the pool.", **KIND)] = "InferencePool"
    name: Annotated[str, described("Name of the pool.", **OBJECT_NAME)]


class InferenceObjectiveSpec(Part, frozen=True, kw_only=True):
    priority: Annotated[
        int | None,
        described("Requests with a higher number are served first; below 0 they may be shed. Unset: 0."),
    ] = None
    pool_ref: Annotated[PoolObjectReference, described("The pool it is about, in the same namespace.")]


class InferenceObjectiveStatus(Part, frozen=True, kw_only=True):
    conditions: Annotated[
        list[Condition],
        Meta(max_length=8),
        described(
            "What was found out about the objective, one per type.", default=_untouched("Ready"), **BY_TYPE
        ),
    ] = []


class InferenceObjective(Part, frozen=True, kw_only=True):
    """InferenceObjective gives a priority to the requests that name it."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "InferenceObjective", "inferenceobjectives")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[InferenceObjectiveSpec, described("How important, and in which pool.")]
    status: Annotated[InferenceObjectiveStatus | None, described("What is observed.")] = None


class ModelMatch(Part, frozen=True, kw_only=True):
    type: Annotated[Literal["Exact"], described("How names are compared.")] = "Exact"
    value: Annotated[str, described("The `model` of the requests.", minLength=1)]


class RewriteMatch(Part, frozen=True, kw_only=True):
    model: Annotated[ModelMatch, described("The model name that it matches.")]


class RewriteTarget(Part, frozen=True, kw_only=True):
    weight: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        described(
            "Share of the requests, relative to the weights beside it. Set all weights, or none: one that is "
            "unset beside others gets no requests.",
            format="int32",
        ),
    ] = None
    model_rewrite: Annotated[str, described("The model name that the model servers get.")]


class RewriteRule(Part, frozen=True, kw_only=True):
    matches: Annotated[
        list[RewriteMatch],
        described(
            "Requests for any of these models. Without matches: all requests that no other rule names."
        ),
    ] = []
    targets: Annotated[
        list[RewriteTarget],
        described("Model names that share the requests, by weight.", minItems=1),
    ] = []


class InferenceModelRewriteSpec(Part, frozen=True, kw_only=True):
    pool_ref: Annotated[PoolObjectReference, described("The pool it is about, in the same namespace.")]
    rules: Annotated[
        list[RewriteRule],
        described(
            "The first rule that matches counts, and a rule with the exact name before one for all names. Of "
            "several objects, the oldest comes first."
        ),
    ]


class InferenceModelRewriteStatus(Part, frozen=True, kw_only=True):
    conditions: Annotated[
        list[Condition],
        Meta(max_length=8),
        described(
            "What was found out about the rewrite, one per type.", default=_untouched("Accepted"), **BY_TYPE
        ),
    ] = []


class InferenceModelRewrite(Part, frozen=True, kw_only=True):
    """InferenceModelRewrite gives requests of an InferencePool another model name."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "InferenceModelRewrite", "inferencemodelrewrites")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[InferenceModelRewriteSpec, described("Which requests, and their new model names.")]
    status: Annotated[InferenceModelRewriteStatus | None, described("What is observed.")] = None
