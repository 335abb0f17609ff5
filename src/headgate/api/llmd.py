"""The dialect of llm-d's workload-variant autoscaler: VariantAutoscaling.

A variant is one way to serve a model: a kind and number of accelerators per replica, and one configuration of
the engine. A VariantAutoscaling has its performance parameters and its objective; the planner decides how
many replicas of each variant meet the objectives at the least cost.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, field

from headgate.api.meta import BY_TYPE, Condition, ObjectMeta, Part, Resource, described

GROUP, VERSION = "llmd.ai", "v1alpha1"

_SAID = {"minLength": 1}
_VARIANT_ID = {"minLength": 1, "pattern": "^.+-[A-Za-z0-9]+-[1-9][0-9]*$"}
_COST = {"pattern": r"^\d+(\.\d+)?$"}


class ConfigMapKeyRef(Part, frozen=True, kw_only=True):
    name: Annotated[str, described("Name of the ConfigMap.", **_SAID)]
    key: Annotated[str, described("Key in the ConfigMap.", **_SAID)]


class PerfParms(Part, frozen=True, kw_only=True):
    decode_parms: Annotated[
        dict[str, str],
        Meta(min_length=1),
        described(
            "Decimal numbers alpha and beta, in milliseconds: time of an output token = "
            "alpha + beta * batch size."
        ),
    ]
    prefill_parms: Annotated[
        dict[str, str],
        Meta(min_length=1),
        described(
            "Decimal numbers gamma and delta, in milliseconds: time of prefill = "
            "gamma + delta * prompt tokens * batch size."
        ),
    ]


class VariantProfile(Part, frozen=True, kw_only=True):
    perf_parms: Annotated[PerfParms, described("Parameters of the latency models.")]
    max_batch_size: Annotated[int, Meta(ge=1), described("Requests that a replica runs at once, at most.")]


class VariantAutoscalingSpec(Part, frozen=True, kw_only=True):
    model_id: Annotated[
        str, described("The model, by the name that its engines report in metrics.", **_SAID)
    ] = field(name="modelID")
    variant_id: Annotated[
        str,
        described(
            "Names the variant: model-accelerator-count, as in meta/llama-3.1-8b-A100-4.", **_VARIANT_ID
        ),
    ] = field(name="variantID")
    accelerator: Annotated[str, described("Kind of the accelerator, such as A100.", **_SAID)]
    accelerator_count: Annotated[int, Meta(ge=1), described("Accelerators of a replica.")]
    slo_class_ref: Annotated[ConfigMapKeyRef, described("Where the service level objectives are.")]
    variant_profile: Annotated[VariantProfile, described("How fast the variant is.")]


class Allocation(Part, frozen=True, kw_only=True):
    variant_id: Annotated[str, described("The variant that was found running.", **_SAID)] = field(
        name="variantID"
    )
    accelerator: Annotated[str, described("Kind of the accelerator that it runs on.", **_SAID)]
    num_replicas: Annotated[int, Meta(ge=0), described("Replicas that it has.")]
    max_batch: Annotated[int, Meta(ge=0), described("Requests that a replica runs at once, at most.")]
    variant_cost: Annotated[
        str, described('Cost of all its replicas, a decimal number such as "80.00".', **_COST)
    ]


class OptimizedAlloc(Part, frozen=True, kw_only=True):
    last_run_time: Annotated[str | None, described("When the planner last decided.", format="date-time")] = (
        None
    )
    variant_id: Annotated[str, described("The variant that it decided on.", **_SAID)] = field(
        name="variantID"
    )
    accelerator: Annotated[str, described("Kind of the accelerator to run on.", minLength=2)]
    num_replicas: Annotated[int, Meta(ge=0), described("Replicas that the variant should have.")]


class ActuationStatus(Part, frozen=True, kw_only=True):
    applied: Annotated[bool, described("Whether the decision was handed on to what scales the workload.")]


class VariantAutoscalingStatus(Part, frozen=True, kw_only=True):
    current_alloc: Annotated[Allocation | None, described("What runs now.")] = None
    desired_optimized_alloc: Annotated[OptimizedAlloc | None, described("What should run.")] = None
    actuation: Annotated[ActuationStatus | None, described("Whether that was acted on.")] = None
    conditions: Annotated[
        list[Condition], described("MetricsAvailable and OptimizationReady, one per type.", **BY_TYPE)
    ] = []


class VariantAutoscaling(Part, frozen=True, kw_only=True):
    """VariantAutoscaling has the replicas of a model's variant planned by objective and cost."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "VariantAutoscaling", "variantautoscalings")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[VariantAutoscalingSpec, described("Which variant, its speed and its objective.")]
    status: Annotated[VariantAutoscalingStatus | None, described("What is observed.")] = None
