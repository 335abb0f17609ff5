"""OpenAPI v3 over HTTP: documents made once for each state of the registry, and known by their hash."""

from __future__ import annotations

import hashlib
import time

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from headgate.apiserver import openapi
from headgate.apiserver.calls import Call
from headgate.apiserver.registry import Registry

_FOREVER = "public, immutable, max-age=31536000"
_JSON = "application/json"
TURN_S = 0.005
"""For so long documents are made before others have their turn."""


class Documents:
    """Owner of the encoded documents."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._generation = -1
        self._documents: dict[str, tuple[bytes, str]] = {}

    async def index(self, request: Request) -> Response:
        """Where the documents are; the hash in a URL changes with the document.

        There may be thousands that have to be made: others have their turns in between.
        """
        call: Call = request.scope["call"]
        found: dict[str, str] = {}
        began = time.perf_counter()
        for group, versions in self._registry.groups().items():
            for version in versions:
                self._refresh()
                path = f"apis/{group}/{version}" if group else f"api/{version}"
                if (document := self._document(path, group, version)) is not None:
                    found[path] = document[1]
                if time.perf_counter() - began > TURN_S:
                    await call.next_turn()
                    began = time.perf_counter()
        paths = {path: {"serverRelativeURL": _url(path, digest)} for path, digest in sorted(found.items())}
        body = msgspec.json.encode({"paths": paths})
        return _cached(request, body, hashlib.sha256(body).hexdigest()[:32].upper())

    def one(self, request: Request, path: str) -> Response | None:
        """A document. The URL with an old hash leads to the new one, and one with its own may be kept."""
        self._refresh()
        match path.split("/"):
            case ["api", version]:
                found = self._document(path, "", version)
            case ["apis", group, version]:
                found = self._document(path, group, version)
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

    def _document(self, path: str, group: str, version: str) -> tuple[bytes, str] | None:
        if (known := self._documents.get(path)) is None:
            made = openapi.document(self._registry, group, version)
            if made is None:
                return None
            body = msgspec.json.encode(made)
            known = self._documents[path] = (body, hashlib.sha256(body).hexdigest()[:32].upper())
        return known

    def _refresh(self) -> None:
        if self._generation != self._registry.generation:
            self._generation = self._registry.generation
            self._documents.clear()


def _url(path: str, digest: str) -> str:
    return f"/openapi/v3/{path}?hash={digest}"


def _cached(request: Request, body: bytes, digest: str) -> Response:
    tag = f'"{digest}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    return Response(body, media_type=_JSON, headers={"ETag": tag, "Vary": "Accept"})
