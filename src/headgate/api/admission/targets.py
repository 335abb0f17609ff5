"""What an object points at: the pool of an InferenceModel, the workloads that a binding scales."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headgate.api.admission.field_cursor import FieldCursor

__all__ = ["ScalingTarget", "group_of", "of_autoscaler", "of_binding", "pool"]

_GROUPS = {
    "Deployment": "apps",
    "StatefulSet": "apps",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io",
    "ModelInfer": "workload.volcano.sh",
    "ModelServing": "workload.serving.volcano.sh",
}
"""The groups of scalable kinds, for references that name a kind alone."""


class ScalingTarget(NamedTuple):
    """One target of a binding, and its bounds."""

    place: FieldCursor
    """Of the scalingConfiguration or of the item of params."""
    workload: tuple[str, str]
    """Kind and name."""

    @property
    def reference(self) -> FieldCursor:
        return self.place.at("target.targetRef")


def of_binding(binding: FieldCursor) -> Iterator[ScalingTarget]:
    """The workloads whose replicas an AutoscalingPolicyBinding decides, in the order of the manifest."""
    spec = binding["spec"]
    for place in (spec["scalingConfiguration"], *spec["optimizerConfiguration"]["params"].items()):
        reference = place.at("target.targetRef")
        if name := reference["name"].text:
            yield ScalingTarget(place, (reference["kind"].text or "", name))


def of_autoscaler(autoscaler: FieldCursor) -> tuple[str, str] | None:
    """Kind and name of the workload that a HorizontalPodAutoscaler scales."""
    reference = autoscaler.at("spec.scaleTargetRef")
    kind, name = reference["kind"].text, reference["name"].text
    return (kind, name) if kind and name else None


def group_of(reference: FieldCursor) -> str | None:
    """The group of an ObjectReference; None if it does not say one and the kind does not tell."""
    version, kind = reference["apiVersion"].text, reference["kind"].text or ""
    return version.rpartition("/")[0] if version else _GROUPS.get(kind)


def pool(obj: FieldCursor) -> tuple[str, str, str] | None:
    """Namespace, group and name of the pool that an InferenceModel or InferenceObjective refers to.

    The group is that of the manifest; a default has been filled in before.
    """
    reference = obj.at("spec.poolRef")
    name = reference["name"].text
    if name is None:
        return None
    return obj.at("metadata.namespace").text or "", reference["group"].text or "", name
