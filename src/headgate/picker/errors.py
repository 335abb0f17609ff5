"""Error responses of the picker, in the format of the reference implementation or in OpenAI's."""

from __future__ import annotations

from typing import Final

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


def no_pods() -> Refusal:
    """A request without a body, for which there is no endpoint."""
    return Refusal(status=500, type="server_error", code="no_pods", message="no pods available in datastore")
