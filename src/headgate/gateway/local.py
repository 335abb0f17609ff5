"""Responses of the gateway itself: health, readiness, the list of models, and OPTIONS."""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING

from headgate.dataplane.bodies import LONG_BYTES
from headgate.gateway import refusals
from headgate.gateway.websocket import opening
from headgate.requests import paths
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.gateway.request import Request
    from headgate.gateway.services import Services

_READING = (b"GET", b"HEAD")
_READY = ("/readyz", "/health")
"""Tools written for engines use `/health`, as in vLLM."""
_MODELS = ("/v1/models", "/models")


def respond(services: Services, request: Request) -> tuple[bytes, ...]:
    """The parts of the response to a request that is not a POST, and so is not for an endpoint."""
    path = request.path
    if request.method == b"OPTIONS":
        return (_options(services, request),)
    methods = services.policy.paths.methods(path)
    if path in paths.SESSIONS:
        refusal = opening.needed(path)
    elif methods and (request.method not in _READING or not methods.startswith(b"GET")):
        refusal = services.policy.paths.wrong_method(request.method.decode("latin-1"), path)
    elif path == "/healthz":
        return _reply(request, 200, b'{"message":"ok"}')
    elif path in _READY:
        ready = services.is_ready
        message = b'{"message":"ready"}' if ready else b'{"message":"not ready"}'
        return _reply(request, 200 if ready else 503, message)
    elif path in _MODELS:
        if services.plane.is_ready:
            return _reply(request, 200, services.models.body(request.tenant))
        refusal = Refusal.not_ready()  # an empty list would say that no model is served
    elif path.startswith(paths.OWN_BELOW):
        # Some clients escape the slashes of "organisation/model", others do not.
        name = urllib.parse.unquote(path.partition("/models/")[2])
        entry, tenant = services.models.entry(name), request.tenant
        if tenant is not None and not tenant.may_use(name):
            refusal = Refusal.forbidden_model(tenant.name, name)
        elif entry is not None:
            return _reply(request, 200, entry)
        else:
            refusal = Refusal.model_not_found(name) if services.plane.is_ready else Refusal.not_ready()
    else:
        refusal = Refusal.bad_request(
            f"there is nothing at {path[:256]}: neither a page of the gateway, nor a path that it forwards; "
            f"only POST is forwarded, to inference paths and to those that {paths.SETTING} adds",
            code="not_found",
            status=404,
        )
    services.recorder.refused_here(refusal)
    whole = refusals.refused(
        refusal, request.target, keep_alive=request.keep_alive, lines=request.response_lines
    )
    return (whole[: whole.index(b"\r\n\r\n") + 4] if request.method == b"HEAD" else whole,)


def _reply(request: Request, status: int, body: bytes) -> tuple[bytes, ...]:
    """A long body is a separate part, so that all clients that have not read it yet share it."""
    keep_alive, lines = request.keep_alive, request.response_lines
    head = refusals.head(status, len(body), keep_alive=keep_alive, lines=lines)
    if request.method == b"HEAD":
        return (head,)
    return (head, body) if len(body) > LONG_BYTES else (head + body,)


def _options(services: Services, request: Request) -> bytes:
    """The allowed methods; for a web page's preflight, CORS headers."""
    lines = request.response_lines
    if services.policy.cors is not None and request.header(b"access-control-request-method"):
        asked = request.header(b"access-control-request-headers").encode("latin-1")
        lines = services.policy.cors.preflight_lines(request.header(b"origin").encode("latin-1"), asked)
    methods = (
        refusals.ALLOWED
        if request.target == b"*"
        else services.policy.paths.methods(request.path) or b"OPTIONS"
    )
    return refusals.no_content(lines + b"allow: %b\r\n" % methods, keep_alive=request.keep_alive)
