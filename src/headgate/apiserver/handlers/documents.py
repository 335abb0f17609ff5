"""OpenAPI v3 over HTTP: documents are generated once per registry state, and identified by their hash."""

from __future__ import annotations

import asyncio
import hashlib
import time
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from headgate.apiserver import openapi
from headgate.apiserver.calls import Call
from headgate.apiserver.registry import Registry

_FOREVER = "public, immutable, max-age=31536000"
_JSON = "application/json"
TURN_S = 0.005
"""How long documents are generated before other requests run."""
IN_THREAD_BYTES = 1 << 20
"""Longer documents are hashed in a thread, which releases the interpreter lock; that takes a millisecond."""


class Documents:
    """Caches the encoded documents."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._generation = -1
        self._documents: dict[str, tuple[bytes, str]] = {}

    async def index(self, request: Request) -> Response:
        """The URLs of the documents; the hash in a URL changes with the document.

        Thousands may have to be generated: other requests run in between.
        """
        call: Call = request.scope["call"]
        found: dict[str, str] = {}
        began = time.perf_counter()
        for group, versions in self._registry.groups().items():
            for version in versions:
                self._refresh()
                path = f"apis/{group}/{version}" if group else f"api/{version}"
                if (document := await self._document(call, path, group, version)) is not None:
                    found[path] = document[1]
                if time.perf_counter() - began > TURN_S:
                    await call.next_turn()
                    began = time.perf_counter()
        paths = {path: {"serverRelativeURL": _url(path, digest)} for path, digest in sorted(found.items())}
        body = msgspec.json.encode({"paths": paths})
        return _cached(request, body, hashlib.sha256(body).hexdigest()[:32].upper())

    async def one(self, request: Request, path: str) -> Response | None:
        """One document. A URL with an old hash redirects to the new one; the current one is cacheable."""
        call: Call = request.scope["call"]
        self._refresh()
        match path.split("/"):
            case ["api", version]:
                found = await self._document(call, path, "", version)
            case ["apis", group, version]:
                found = await self._document(call, path, group, version)
            case _:
                return None
        if found is None:
            return None
        body, digest = found
        asked = request.query_params.get("hash")
        if asked and asked != digest:
            return RedirectResponse(_url(path, digest), 301)
        response = _cached(request, body, digest)
        if asked:
            response.headers["Cache-Control"] = _FOREVER
        return response

    async def _document(self, call: Call, path: str, group: str, version: str) -> tuple[bytes, str] | None:
        if (known := self._documents.get(path)) is None:
            generation = self._generation
            made = openapi.document(self._registry, group, version)
            if made is None:
                return None
            body = await _encoded(made, call)
            known = body, await _digest(body)
            if generation == self._generation:
                self._documents[path] = known
        return known

    def _refresh(self) -> None:
        if self._generation != self._registry.generation:
            self._generation = self._registry.generation
            self._documents.clear()


async def _encoded(document: dict[str, Any], call: Call) -> bytes:
    """A document may have 11 MB, which take 50 ms: other requests run between its schemas."""
    schemas: dict[str, Any] = document.pop("components")["schemas"]
    began = time.perf_counter()
    parts: list[bytes] = []
    for name, schema in schemas.items():
        parts.append(msgspec.json.encode({name: schema})[1:-1])
        if time.perf_counter() - began > TURN_S:
            await call.next_turn()
            began = time.perf_counter()
    head = msgspec.json.encode(document)[:-1]
    return b"".join((head, b',"components":{"schemas":{', b",".join(parts), b"}}}"))


async def _digest(body: bytes) -> str:
    hashed = hashlib.sha256
    digest = await asyncio.to_thread(hashed, body) if len(body) > IN_THREAD_BYTES else hashed(body)
    return digest.hexdigest()[:32].upper()


def _url(path: str, digest: str) -> str:
    return f"/openapi/v3/{path}?hash={digest}"


def _cached(request: Request, body: bytes, digest: str) -> Response:
    tag = f'"{digest}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    return Response(body, media_type=_JSON, headers={"ETag": tag, "Vary": "Accept"})
