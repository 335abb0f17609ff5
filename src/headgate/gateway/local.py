"""The few things that the gateway answers itself: health, readiness, the list of models, and OPTIONS."""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING

import msgspec

from headgate.api import timestamps
from headgate.gateway import refusals
from headgate.gateway.refusals import Refusal

if TYPE_CHECKING:
    from headgate.gateway.proxy import Proxy
    from headgate.gateway.request import Request
    from headgate.routing import Snapshot

OWNER = "headgate"
_READING = (b"GET", b"HEAD")
_READY = ("/readyz", "/health")
"""Tools that know engines ask for the second, as vLLM has it."""
_MODELS = ("/v1/models", "/models")
_MODEL = ("/v1/models/", "/models/")


def answer(proxy: Proxy, request: Request) -> bytes:
    """The response to a request that is not posted, and so is not for an endpoint."""
    path = request.path
    if request.method == b"OPTIONS":
        return _options(proxy, request)
    if request.method not in _READING:
        refusal = Refusal.bad_request(
            f"{request.method.decode('latin-1')} is not served: inference requests are POST",
            code="method_not_allowed",
            status=405,
        )
    elif path == "/healthz":
        return _reply(request, 200, b'{"message":"ok"}')
    elif path in _READY:
        ready = proxy.is_ready and not proxy.stopping
        message = b'{"message":"ready"}' if ready else b'{"message":"not ready"}'
        return _reply(request, 200 if ready else 503, message)
    elif path in _MODELS:
        return _reply(request, 200, proxy.model_list)
    elif path.startswith(_MODEL):
        # Clients escape the slashes of "organisation/model", or they do not.
        name = urllib.parse.unquote(path.partition("/models/")[2])
        found = next((model for model in models(proxy.snapshot) if model["id"] == name), None)
        if found is not None:
            return _reply(request, 200, msgspec.json.encode(found))
        refusal = Refusal.model_not_found(name)
    else:
        refusal = Refusal.bad_request(
            f"there is nothing to get at {path[:256]}: inference requests are POST",
            code="not_found",
            status=404,
        )
    return _for_method(request, _refused(request, refusal))


def _refused(request: Request, refusal: Refusal) -> bytes:
    return refusals.refused(
        refusal, request.target, keep_alive=request.keep_alive, lines=request.answer_lines
    )


def _reply(request: Request, status: int, body: bytes) -> bytes:
    whole = refusals.response(status, body, keep_alive=request.keep_alive, lines=request.answer_lines)
    return _for_method(request, whole)


def _options(proxy: Proxy, request: Request) -> bytes:
    """What may be asked here; to a web page's preflight, whether the page may."""
    lines = request.answer_lines
    if proxy.policy.cors is not None and request.header(b"access-control-request-method"):
        asked = request.header(b"access-control-request-headers").encode("latin-1")
        lines = proxy.policy.cors.preflight_lines(request.header(b"origin").encode("latin-1"), asked)
    return refusals.no_content(lines + b"allow: %b\r\n" % refusals.ALLOWED, keep_alive=request.keep_alive)


def _for_method(request: Request, whole: bytes) -> bytes:
    """A response to HEAD has the head of the one to GET, and no body."""
    return whole[: whole.index(b"\r\n\r\n") + 4] if request.method == b"HEAD" else whole


def models(snapshot: Snapshot) -> list[dict[str, object]]:
    """Every name that a request may use, sorted, in OpenAI's form (R19)."""
    listed: list[dict[str, object]] = []
    for name in snapshot.names():
        route = snapshot.first(name)
        if route is not None and not route.is_reserved:
            listed.append(
                {"id": name, "object": "model", "created": _epoch(route.created), "owned_by": OWNER}
            )
    return listed


def model_list(snapshot: Snapshot) -> bytes:
    """The body of GET /v1/models; made once for each snapshot."""
    return msgspec.json.encode({"object": "list", "data": models(snapshot)})


def _epoch(timestamp: str) -> int:
    try:
        return int(timestamps.parse(timestamp))
    except ValueError:
        return 0
