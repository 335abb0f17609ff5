"""Sending responses: in parts, so that others are served in between, compressed, or in YAML."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from headgate.apiserver import errors
from headgate.apiserver.calls import Call
from headgate.apiserver.connections import BoundedProtocol
from headgate.apiserver.handlers import bodies, negotiation, query
from headgate.apiserver.handlers.listing import LongList

PART_BYTES = 64 * 1024


class StalledError(Exception):
    """The client does not take what is sent to it."""


async def whole(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Sends a response. What it is read from ends with it, and not only when memory is tidied up."""
    try:
        await response(scope, receive, send)
    finally:
        if isinstance(response, StreamingResponse) and isinstance(response.body_iterator, AsyncGenerator):
            await response.body_iterator.aclose()


def in_time(send: Send, connection: BoundedProtocol | None, stalled_s: float) -> Send:
    """Sends parts of a bounded size, each when the client has taken most of the one before.

    Raises StalledError if the client takes longer than `stalled_s` for one part. Tests have no `connection`.
    """

    async def send_part(message: Message) -> None:
        try:
            async with asyncio.timeout(stalled_s):
                await send(message)
                if connection is not None:
                    await connection.sent()
        except TimeoutError as error:
            raise StalledError from error

    async def send_message(message: Message) -> None:
        body = message.get("body", b"")
        if len(body) <= PART_BYTES:
            await send_part(message)
            return
        view = memoryview(body)
        for start in range(0, len(body), PART_BYTES):
            part = bytes(view[start : start + PART_BYTES])
            more = start + PART_BYTES < len(body) or message.get("more_body", False)
            await send_part({"type": message["type"], "body": part, "more_body": more})

    return send_message


# Large answers are compressed for who takes it, as in Kubernetes; small ones are not worth the time.
THRESHOLD_BYTES = 128 * 1024
_LEVEL = 1
"""Fast: the network is the laptop's own more often than not."""
_GZIP = 16 + zlib.MAX_WBITS
"""The number by which zlib writes gzip's head and end."""


async def compressed(response: Response, scope: Scope) -> Response:
    """The response, gzipped if its body is large and the client takes it; not watches and logs."""
    if isinstance(response, LongList):
        response.headers["Vary"] = "Accept-Encoding"
        if _takes_gzip(Headers(scope=scope).get("accept-encoding", "")):
            response.headers["Content-Encoding"] = "gzip"
            response.body_iterator = _compressed_parts(response.body_iterator)
        return response
    if isinstance(response, StreamingResponse) or len(response.body) < THRESHOLD_BYTES:
        return response
    response.headers["Vary"] = "Accept-Encoding"
    if not _takes_gzip(Headers(scope=scope).get("accept-encoding", "")):
        return response
    # In a thread: zlib lets go of the interpreter, and megabytes take a while.
    body = await asyncio.to_thread(gzip.compress, bytes(response.body), _LEVEL)
    response.body = body
    response.headers["Content-Encoding"] = "gzip"
    response.headers["Content-Length"] = str(len(body))
    return response


async def _compressed_parts(parts: AsyncIterable[Any]) -> AsyncIterator[bytes]:
    gzipped = zlib.compressobj(_LEVEL, wbits=_GZIP)
    async for part in parts:
        if made := await asyncio.to_thread(gzipped.compress, part):
            yield made
    yield gzipped.flush()


def _takes_gzip(header: str) -> bool:
    for entry in header[:1024].split(","):
        coding, _, quality = entry.replace(" ", "").partition(";")
        if coding.lower() == "gzip":
            return quality not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


# Answers in YAML, for who asks for `application/yaml`: what would have been answered in JSON, rewritten.
MAX_BYTES = 256 * 1024
"""JSON text beyond this stays as it is: it is YAML too, and laying it out in lines takes seconds."""


def check_yaml(request: Request) -> None:
    """406 for who takes neither JSON nor YAML, or wants a watch in YAML, which has no frames for events."""
    accept = negotiation.accept(request.headers)
    negotiation.check_taken(accept)
    if negotiation.wants_yaml(accept) and query.flag(request, "watch"):
        raise errors.not_acceptable((f"{bodies.JSON};stream=watch",))


async def in_yaml(response: Response, accept: str, call: Call) -> Response:
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
