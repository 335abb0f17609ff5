"""The page `POST /debug/explain`, which is the same in every shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from starlette.responses import JSONResponse, Response

from headgate.dataplane.explaining.explainer import DEFAULT_PATH, Forms, explain
from headgate.dataplane.explaining.view import View
from headgate.requests.bodies import large

if TYPE_CHECKING:
    from starlette.requests import Request

    from headgate.dataplane.large_reader import Reader
    from headgate.requests.data_plane import DataPlane

PATH = "/debug/explain"


async def respond(
    request: Request, plane: DataPlane, forms: Forms, reader: Reader, most_bytes: int, now: float
) -> Response:
    """Explain the request that is posted below PATH, with its headers. Its body has at most `most_bytes`."""
    body = await read_body(request, most_bytes)
    if body is None:
        return JSONResponse({"message": f"the body is longer than {most_bytes} bytes"}, 413)
    path = request.scope["raw_path"].decode("latin-1").removeprefix(PATH) or DEFAULT_PATH
    headers = [(name.lower(), value) for name, value in request.headers.raw]
    read = await reader.read(headers, body, path) if len(body) > large.LARGE_BYTES else None
    found = explain(View.of_plane(plane, now), forms, path, headers, body, read)
    return Response(msgspec.json.encode(found), media_type="application/json")


async def read_body(request: Request, most: int) -> bytes | None:
    """The request's body; None if it is longer than `most` bytes."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            return None
    return bytes(body)
