"""HorizontalPodAutoscaler (autoscaling/v1 and v2), as far as an API server needs it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from headgate.api.meta import Condition, ObjectMeta, Part, Resource, described

_BY_TYPE = {"x-kubernetes-patch-merge-key": "type", "x-kubernetes-patch-strategy": "merge"}


class CrossVersionObjectReference(Part, frozen=True, kw_only=True):
    kind: Annotated[str, described("Kind of the object.")]
    name: Annotated[str, described("Name of the object.")]
    api_version: Annotated[str, described("Version of the object's API.")] = ""


class _Spec(Part, frozen=True, kw_only=True):
    scale_target_ref: Annotated[CrossVersionObjectReference, described("What is scaled.")]
    max_replicas: Annotated[int, Meta(ge=1), described("The most Pods that there may be.", format="int32")]
    min_replicas: Annotated[int, Meta(ge=0), described("The fewest.", format="int32")] = 1


class HorizontalPodAutoscalerV1Spec(_Spec, frozen=True, kw_only=True):
    target_cpu_utilization_percentage: Annotated[
        Annotated[int, Meta(ge=1)] | None, described("Mean use of the CPU that was requested, in percent.")
    ] = msgspec.field(default=None, name="targetCPUUtilizationPercentage")


class HorizontalPodAutoscalerV1Status(Part, frozen=True, kw_only=True):
    observed_generation: int = 0
    last_scale_time: str | None = None
    current_replicas: int = 0
    desired_replicas: int = 0
    current_cpu_utilization_percentage: int | None = msgspec.field(
        default=None, name="currentCPUUtilizationPercentage"
    )


class HorizontalPodAutoscalerV1(Part, frozen=True, kw_only=True):
    """HorizontalPodAutoscaler sets the number of Pods of a workload by their use of CPU."""

    resource: ClassVar[Resource] = Resource(
        "autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers"
    )

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[HorizontalPodAutoscalerV1Spec, described("What is wanted.")]
    status: Annotated[HorizontalPodAutoscalerV1Status, described("What is observed.")] = (
        HorizontalPodAutoscalerV1Status()
    )


class MetricSpec(Part, frozen=True, kw_only=True):
    type: Annotated[str, described("Resource, Pods, Object, External or ContainerResource.")]
    resource: Annotated[dict[str, Any] | None, described("CPU or memory of the Pods.")] = None
    pods: Annotated[dict[str, Any] | None, described("A metric of each Pod.")] = None
    object: Annotated[dict[str, Any] | None, described("A metric of one other object.")] = None
    external: Annotated[dict[str, Any] | None, described("A metric from outside.")] = None


class HorizontalPodAutoscalerSpec(_Spec, frozen=True, kw_only=True):
    metrics: Annotated[list[MetricSpec], described("What decides; the largest answer counts.")] = []
    behavior: Annotated[dict[str, Any] | None, described("How fast it may go up and down.")] = None


class HorizontalPodAutoscalerStatus(Part, frozen=True, kw_only=True):
    observed_generation: int = 0
    last_scale_time: str | None = None
    current_replicas: int = 0
    desired_replicas: int = 0
    conditions: Annotated[list[Condition], described("What is observed of it.", **_BY_TYPE)] = []


class HorizontalPodAutoscaler(Part, frozen=True, kw_only=True):
    """HorizontalPodAutoscaler sets the number of Pods of a workload by metrics."""

    resource: ClassVar[Resource] = Resource(
        "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"
    )

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[HorizontalPodAutoscalerSpec, described("What is wanted.")]
    status: Annotated[HorizontalPodAutoscalerStatus, described("What is observed.")] = (
        HorizontalPodAutoscalerStatus()
    )
