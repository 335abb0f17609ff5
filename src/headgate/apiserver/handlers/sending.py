"""Send responses: in parts, so that other requests run in between, compressed, or as YAML."""

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
    """The client does not read what is sent."""


async def whole(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Send a response, and close its iterator immediately rather than at garbage collection."""
    try:
        await response(scope, receive, send)
    finally:
        if isinstance(response, StreamingResponse) and isinstance(response.body_iterator, AsyncGenerator):
            await response.body_iterator.aclose()


def in_time(send: Send, connection: BoundedProtocol | None, stalled_s: float) -> Send:
    """Send parts of a bounded size, each after the client has read most of the previous one.

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


# Large responses are compressed for clients that accept it, as in Kubernetes; small ones are not worth it.
THRESHOLD_BYTES = 128 * 1024
_LEVEL = 1
"""Fast: the network is usually local."""
_GZIP = 16 + zlib.MAX_WBITS
"""Makes zlib write gzip's header and trailer."""


async def compressed(response: Response, scope: Scope) -> Response:
    """Compress the response if it is large and the client accepts gzip; not watches and logs."""
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
    # In a thread: zlib releases the interpreter lock, and megabytes take a while.
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


# YAML responses for clients that ask for `application/yaml`: the JSON response, rewritten.
MAX_BYTES = 256 * 1024
"""Larger JSON is sent as it is: it is valid YAML, and reformatting it takes seconds."""


def check_yaml(request: Request) -> None:
    """406 for clients that accept neither JSON nor YAML, or want a watch in YAML, which has no framing."""
    accept = negotiation.accept(request.headers)
    negotiation.check_taken(accept)
    if negotiation.wants_yaml(accept) and query.flag(request, "watch"):
        raise errors.not_acceptable((f"{bodies.JSON};stream=watch",))


async def in_yaml(response: Response, accept: str, call: Call) -> Response:
    """The response as YAML, if requested and if it is JSON."""
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
