"""Large answers are compressed for who takes it, as in Kubernetes; small ones are not worth the time."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import Response, StreamingResponse
from starlette.types import Scope

from headgate.apiserver.handlers.listing import LongList

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
