"""VariantAutoscalings as other versions of the workload variant autoscaler have them.

All have the same group and version, so that only the fields tell the forms apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.api import llmd
from headgate.api.forms.tables import Field, Form, Output, Setting, Unserved

_FIRST = "spec.modelProfile.accelerators[0]"

VARIANT = Form(
    "VariantAutoscaling",
    "variantautoscalings",
    (llmd.VariantAutoscaling.resource.api_version,),
    (
        Output(
            llmd.VariantAutoscaling.resource,
            (
                Setting(
                    "spec.variantID",
                    "{spec.modelID}-{spec.accelerator}-{spec.acceleratorCount}",
                    why="model, accelerator and count",
                ),
            ),
        ),
    ),
    (
        # since 0.4.1
        Field(
            "spec.scaleTargetRef.name",
            instead="the workload must have the same name as the VariantAutoscaling",
            fix="rename one of them",
            harmless=("{name}",),
        ),
        Field(
            "spec.scaleTargetRef.kind",
            instead="a Deployment, StatefulSet or LeaderWorkerSet of the same name is the workload",
            harmless=("Deployment", "StatefulSet", "LeaderWorkerSet"),
        ),
        Field(
            "spec.scaleTargetRef.apiVersion",
            instead="the workload is found by its name alone",
            harmless=("apps/v1", "leaderworkerset.x-k8s.io/v1", ""),
        ),
        # since 0.0.5
        Field(
            "spec.variantCost",
            instead="a variant has no cost of its own",
            harmless=("10", "10.0"),
        ),
        Field(
            "spec.minReplicas",
            instead="a variant has no lower bound",
            fix="set minReplicas of the HorizontalPodAutoscaler that scales the workload",
            harmless=(0,),
        ),
        Field(
            "spec.maxReplicas",
            instead="a variant has no upper bound",
            fix="set maxReplicas of the HorizontalPodAutoscaler that scales the workload",
        ),
        # until 0.0.4: one object with all accelerators
        Field(f"{_FIRST}.acc", ("spec.accelerator",)),
        Field(f"{_FIRST}.accCount", ("spec.acceleratorCount",)),
        Field(f"{_FIRST}.perfParms", ("spec.variantProfile.perfParms",)),
        Field(f"{_FIRST}.maxBatchSize", ("spec.variantProfile.maxBatchSize",)),
        Field(
            "spec.modelProfile.accelerators[]",
            instead="one VariantAutoscaling is for one accelerator, and this is a further one",
            fix="write a VariantAutoscaling and a workload for each accelerator",
        ),
    ),
)

FORMS = (VARIANT,)

_MANAGED = "llm-d.ai/managed"
_DESIRED = ("wva_desired_replicas", "wva_desired_ratio")


def _is_scaled_by_variant(scaler: Mapping[str, Any]) -> bool:
    """Whether an autoscaler follows the replicas that the workload variant autoscaler wants."""
    metadata = scaler.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    if isinstance(annotations, Mapping) and _MANAGED in annotations:
        return True
    text = str(scaler.get("spec"))
    return any(name in text for name in _DESIRED)


_NO_METRIC = "Headgate publishes no metric of this name, so that this object stops scaling once WVA is gone"
_OTHER_NAME = "scale by inferno_desired_replicas, which Headgate publishes"

UNSERVED = (
    Unserved(
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        ("autoscaling/v2",),
        _NO_METRIC,
        _OTHER_NAME,
        _is_scaled_by_variant,
    ),
    Unserved(
        "ScaledObject",
        "scaledobjects",
        ("keda.sh/v1alpha1",),
        _NO_METRIC,
        _OTHER_NAME,
        _is_scaled_by_variant,
    ),
)
