"""HTTPRoute: what Headgate's annotations on it say. The Gateway API's own rules are in its schema."""

from __future__ import annotations

from headgate.api import gie_v1, gie_v1alpha1, kthena_networking, marks
from headgate.api.admission import references
from headgate.api.admission.annotations import check_fallbacks
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.admission.references import View
from headgate.api.meta import ObjectKey

__all__ = ["GROUP", "check"]

GROUP = "gateway.networking.k8s.io"

_POOLS = {
    (gie_v1.GROUP, "InferencePool"),
    (gie_v1alpha1.GROUP, "InferencePool"),
    (kthena_networking.GROUP, "ModelServer"),
}


def check(route: FieldCursor, old: FieldCursor | None, others: View, found: Findings) -> None:
    """All rules for an HTTPRoute."""
    annotations, namespace = route.at("metadata.annotations"), references.key_of(route).namespace
    kinds = {
        (backend["group"].text or "", backend["kind"].text or "Service")
        for rule in route.at("spec.rules").items()
        for backend in rule["backendRefs"].items()
    } & _POOLS

    def exists(pool: str) -> bool:
        return any(others.get(*kind, ObjectKey(namespace, pool)) is not None for kind in kinds)

    check_fallbacks(annotations, (), exists, others, found)
    if marks.FALLBACK in annotations.texts and not kinds:
        told = "has no effect: no backend of the route is an InferencePool or a ModelServer"
        found.warn(annotations.key(marks.FALLBACK), told)
