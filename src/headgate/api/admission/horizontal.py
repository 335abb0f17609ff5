"""HorizontalPodAutoscaler: what Kubernetes refuses in it, and what else decides the same number."""

from __future__ import annotations

from headgate.api.admission import bindings, pods, targets
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.admission.references import View

__all__ = ["check"]

GROUP, KIND = "autoscaling", "HorizontalPodAutoscaler"


def check(autoscaler: FieldCursor, old: FieldCursor | None, others: View, found: Findings) -> None:
    """All rules for a HorizontalPodAutoscaler, in either version."""
    spec = autoscaler["spec"]
    least, most = spec["minReplicas"], spec["maxReplicas"]
    pods.at_least(least, 1, found)
    if most.integer is not None and most.integer < 1:
        found.invalid(most, "must be greater than 0")
    elif most.integer is not None and least.integer is not None and most.integer < least.integer:
        found.invalid(most, "must be greater than or equal to `minReplicas`")
    reference = spec["scaleTargetRef"]
    for field in ("kind", "name"):
        if isinstance(reference.value, dict) and reference[field].value in (None, ""):
            found.required(reference[field])
    if (workload := targets.of_autoscaler(autoscaler)) is not None:
        place = reference["name"]
        bindings.warn_of_other_scalers(GROUP, KIND, autoscaler, place, workload, others, found)
