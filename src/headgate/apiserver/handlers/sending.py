"""Sending a large answer in parts, so that it waits in memory once and others are served in between."""

from __future__ import annotations

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

PART_BYTES = 256 * 1024


async def send_in_parts(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Sends the response; a part of a large body follows when the client has taken most of the one before."""
    if isinstance(response, StreamingResponse) or len(response.body) <= PART_BYTES:
        await response(scope, receive, send)
        return
    head = {"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers}
    await send(head)
    body = memoryview(response.body)
    for start in range(0, len(body), PART_BYTES):
        part = bytes(body[start : start + PART_BYTES])
        await send({"type": "http.response.body", "body": part, "more_body": start + PART_BYTES < len(body)})
