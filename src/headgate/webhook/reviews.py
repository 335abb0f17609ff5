"""From an AdmissionReview to its response, without I/O."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate import api
from headgate.api import admission
from headgate.api.marks import DOMAIN
from headgate.kubeschema import structural

__all__ = ["InvalidReviewError", "Request", "decoded", "judged", "response"]

Object = dict[str, Any]

_API_VERSION, _KIND = "admission.k8s.io/v1", "AdmissionReview"
_OWN_ANNOTATIONS: Final = f"metadata.annotations[{DOMAIN}"
MAX_DEPTH: Final = 200
MAX_VALUES: Final = 100_000


def _without_rules(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_rules(item) for key, item in value.items() if key != "x-kubernetes-validations"}
    return value


_SHAPES: Final = {
    (f"{each['spec']['group']}/{version['name']}", each["spec"]["names"]["kind"]): structural.Prepared(
        _without_rules(version["schema"]["openAPIV3Schema"])
    )
    for each in api.custom_definitions()
    for version in each["spec"]["versions"]
}
"""Types and limits by version and kind. The API server has evaluated the rules before it asks."""


class InvalidReviewError(ValueError):
    """The body is not an AdmissionReview that this webhook can judge."""


class Request(msgspec.Struct, frozen=True):
    """The part of an AdmissionReview that is needed."""

    uid: str
    operation: str = ""
    namespace: str = ""
    object: Object | None = None
    old_object: Object | None = msgspec.field(default=None, name="oldObject")


class _Review(msgspec.Struct, frozen=True):
    api_version: str = msgspec.field(name="apiVersion")
    kind: str
    request: Request | None = None


def decoded(body: bytes) -> Request:
    """Raises InvalidReviewError."""
    try:
        review = msgspec.json.decode(body, type=_Review)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidReviewError(f"not an AdmissionReview: {error}") from error
    if (review.api_version, review.kind) != (_API_VERSION, _KIND):
        told = f"{review.kind[:64]} of {review.api_version[:64]} is not {_KIND} of {_API_VERSION}"
        raise InvalidReviewError(told)
    if review.request is None:
        raise InvalidReviewError("request is missing")
    for value in (review.request.object, review.request.old_object):
        _check_bounds(value)
    return review.request


def _check_bounds(value: Object | None) -> None:
    """Reject objects that would take long: the API server sends none with as many values."""
    count = depth = 0
    level: list[Any] = [] if value is None else [value]
    while level:
        count, depth = count + sum(map(len, level)), depth + 1
        if count > MAX_VALUES or depth > MAX_DEPTH:
            told = f"the object has more than {MAX_VALUES} values, or {MAX_DEPTH} levels"
            raise InvalidReviewError(told)
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]


def judged(request: Request, others: admission.View) -> admission.Findings:
    """What the rules find out about the new object; fills in defaults of both.

    An object of another kind or shape has no findings: an API server has validated what it sends.
    """
    obj = request.object
    if obj is None or request.operation not in ("CREATE", "UPDATE"):
        return admission.Findings()
    shape = _SHAPES.get((str(obj.get("apiVersion")), str(obj.get("kind"))))
    old = request.old_object
    if shape is None or not isinstance(obj.get("metadata"), dict) or shape.validate(obj, old):
        return admission.Findings()
    obj["metadata"].setdefault("name", obj["metadata"].get("generateName"))
    obj["metadata"].setdefault("namespace", request.namespace)
    admission.default(obj)
    if old is not None:
        admission.default(old)
    found = admission.check(obj, old, others)
    found.errors = [error for error in found.errors if not _is_servers(error.field)]
    return found


def _is_servers(field: str) -> bool:
    """Whether the API server itself validates the field: names and labels, but no annotation of ours."""
    return field.startswith("metadata") and not field.startswith(_OWN_ANNOTATIONS)


def response(request: Request, found: admission.Findings) -> Object:
    """The review that an API server expects."""
    answer: Object = {"uid": request.uid, "allowed": not found.errors}
    if found.warnings:
        answer["warnings"] = found.warnings
    if found.errors:
        answer["status"] = _status(request.object or {}, found)
    return {"apiVersion": _API_VERSION, "kind": _KIND, "response": answer}


def _status(obj: Object, found: admission.Findings) -> Object:
    group, _, _ = str(obj.get("apiVersion")).rpartition("/")
    causes = [
        {"reason": error.reason, "message": error.body(), "field": error.field} for error in found.errors
    ]
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "message": "; ".join(error.message() for error in found.errors),
        "reason": "Invalid",
        "code": 422,
        "details": {
            "name": obj.get("metadata", {}).get("name"),
            "group": group,
            "kind": obj.get("kind"),
            "causes": causes,
        },
    }
