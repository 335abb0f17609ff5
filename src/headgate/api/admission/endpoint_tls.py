"""Annotations about endpoints that speak https. Only warnings: annotations never keep an object out."""

from __future__ import annotations

from headgate.api import marks
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.endpoint_tls import ANNOTATIONS, EndpointTls, InvalidAnnotationError

__all__ = ["warn"]


def warn(annotations: FieldCursor, *, is_https: bool, needed: str, found: Findings) -> None:
    """`needed` is what makes the endpoints of the kind speak https."""
    written = [name for name in ANNOTATIONS if name in annotations.texts]
    if not written:
        return
    if not is_https:
        for name in written:
            found.warn(annotations.key(name), f"has no effect without {needed}")
        return
    try:
        asked = EndpointTls.parse(annotations.texts)
    except InvalidAnnotationError as error:
        found.warn(annotations.key(error.annotation), f"{error}; until then no Pod gets requests")
        return
    if asked.insecure:
        told = "anyone who takes the address of a Pod can read and answer its requests"
        found.warn(annotations.key(marks.TLS_INSECURE), told)
