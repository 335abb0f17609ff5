"""Error responses of the picker, in the format of the reference implementation or in OpenAI's."""

from __future__ import annotations

from typing import Final

import msgspec

from headgate import extproc
from headgate.requests.refusal import Refusal

_CODES: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    412: "PreconditionFailed",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    429: "ResourceExhausted",
    500: "Internal",
    502: "ModelServerError",
    503: "ServiceUnavailable",
    504: "DeadlineExceeded",
}
_TEXTS: Final = {
    "model_missing": "model not found in request body",
    "no_ready_endpoint": "failed to find endpoint candidates for serving the request",
    "no_endpoint_in_subset": "failed to find endpoint candidates for serving the request",
    "pool_not_found": "failed to find endpoint candidates for serving the request",
    "no_pods": "no pods available in datastore",
}
"""The texts of the reference implementation, by our codes: clients and tests may compare them."""


_SATURATED: Final = frozenset({"queue_full", "pool_saturated", "evicted", "evicted_priority"})
_MODEL_MISSING: Final = "the request has no model: set `model` to the name of a model of the pool"
_SHED: Final = "system saturated, sheddable request dropped"


def text(refusal: Refusal, *, is_sheddable: bool = False) -> str:
    """The error as one line: "inference error: CODE - MESSAGE"."""
    code = _CODES.get(refusal.status, "Unknown")
    if is_sheddable and refusal.code in _SATURATED:
        return f"inference error: {code} - {_SHED}"
    return f"inference error: {code} - {_TEXTS.get(refusal.code, refusal.message)}"


def response(
    refusal: Refusal, target: bytes, *, is_text: bool, is_sheddable: bool = False
) -> extproc.ImmediateResponse:
    """The response that a refused request gets. `is_text`: in the format of the reference implementation."""
    if refusal.code == "model_missing":  # behind a proxy, GET /v1/models is the list of a single engine
        refusal = msgspec.structs.replace(refusal, message=_MODEL_MISSING)
    if is_text:
        body, kind = text(refusal, is_sheddable=is_sheddable).encode(), b"text/plain"
    else:
        body, kind = refusal.body_at(target), b"application/json"
    headers = [extproc.SetHeader(b"content-type", kind)]
    if refusal.retry_after_s is not None:
        headers.append(extproc.SetHeader(b"retry-after", b"%d" % refusal.retry_after_s))
    for line in refusal.lines.split(b"\r\n"):
        name, _, value = line.partition(b": ")
        if name:
            headers.append(extproc.SetHeader(name, value))
    return extproc.ImmediateResponse(
        status=refusal.status,
        mutation=extproc.Mutation(headers),
        body=body,
        details=f"headgate_{refusal.code}",
    )


def no_pool() -> Refusal:
    """A request whose body is not read, while there is no pool."""
    return Refusal.unavailable(
        "the InferencePool does not exist", code="pool_not_found", dropped="rejected-no-endpoints"
    )


def no_endpoint_in_subset() -> Refusal:
    """A request without a body, which the proxy confines to endpoints that do not exist or are not ready."""
    return Refusal.unavailable(
        "no endpoint to which the proxy confines the request is ready",
        code="no_endpoint_in_subset",
        dropped="rejected-no-endpoints",
    )


def no_pods() -> Refusal:
    """A request without a body, for which there is no endpoint."""
    return Refusal(status=500, type="server_error", code="no_pods", message="no pods available in datastore")
