"""Answers in YAML, for who asks for `application/yaml`: what would have been answered in JSON, rewritten."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from headgate.apiserver import errors
from headgate.apiserver.calls import Call
from headgate.apiserver.handlers import bodies, negotiation, query

MAX_BYTES = 256 * 1024
"""JSON text beyond this stays as it is: it is YAML too, and laying it out in lines takes seconds."""


def check(request: Request) -> None:
    """406 for who takes neither JSON nor YAML, or wants a watch in YAML, which has no frames for events."""
    accept = negotiation.accept(request.headers)
    negotiation.check_taken(accept)
    if negotiation.wants_yaml(accept) and query.flag(request, "watch"):
        raise errors.not_acceptable((f"{bodies.JSON};stream=watch",))


async def rewritten(response: Response, accept: str, call: Call) -> Response:
    """The response in YAML, if that is wanted and if it is JSON."""
    if not negotiation.wants_yaml(accept) or response.headers.get("content-type") != bodies.JSON:
        return response
    if not isinstance(response, StreamingResponse) and len(response.body) <= MAX_BYTES:
        body = bytes(response.body)
        response.body = await call.in_thread(lambda: _as_yaml(body))
        response.headers["Content-Length"] = str(len(response.body))
    response.headers["Content-Type"] = bodies.YAML
    return response


def _as_yaml(body: bytes) -> bytes:
    return msgspec.yaml.encode(msgspec.json.decode(body), order="sorted")
