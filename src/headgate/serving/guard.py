"""Lets only holders of a credential see a page; health pages are open."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from headgate import private_files
from headgate.serving.server import Application

OPEN = frozenset({"/healthz", "/readyz"})
"""What kubelets and load balancers ask, and what reveals nothing but health."""
_BEARER = b"bearer "
MAX_TOKEN_BYTES = 4096


class Closed(NamedTuple):
    """Why a page is not shown."""

    code: str
    status: int
    message: str


class Guarded:
    """An ASGI application that shows another one to holders of a credential."""

    def __init__(
        self,
        app: Application,
        closed: Callable[[bytes], Closed | None],
        rejected: Callable[[str], None] = lambda code: None,
    ) -> None:
        """`closed` gets the credential of a request, which is empty without one. `rejected` is called with
        the code for each request that is not served."""
        self.app = app
        self.closed = closed
        self.rejected = rejected

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http" and not (scope["path"] in OPEN and scope["method"] in ("GET", "HEAD")):
            used = first_credential(scope["headers"])
            closed = self.closed(used[1])
            if closed is not None:
                self.rejected(closed.code)
                await _respond(send, closed)
                return
            # Pages may show headers, and some take them as those of a request to explain.
            scope = scope | {"headers": [each for each in scope["headers"] if each is not used[0]]}
        await self.app(scope, receive, send)


def by_token_file(app: Application, file: Path | None) -> Application:
    """The application for holders of the token in a file, which is read for each request; without a file, for
    everybody. While the file cannot be read, or is empty, the pages are closed."""
    if file is None:
        return app

    def closed(given: bytes) -> Closed | None:
        try:
            token = private_files.read(file, MAX_TOKEN_BYTES).strip()
        except OSError:
            token = b""
        if token and hmac.compare_digest(_digest(token), _digest(given)):
            return None
        return Closed("unauthenticated", 401, "this page needs the token of its --page-token-file")

    return Guarded(app, closed)


def _digest(token: bytes) -> bytes:
    """Of equal length for all tokens, as a comparison takes as long as the shorter one."""
    return hashlib.sha256(token).digest()


def first_credential(headers: list[tuple[bytes, bytes]]) -> tuple[tuple[bytes, bytes] | None, bytes]:
    """The first `authorization: Bearer` or `x-api-key`, and the credential in it."""
    for header in headers:
        name, value = header
        if name == b"authorization" and value[: len(_BEARER)].lower() == _BEARER:
            return header, value[len(_BEARER) :].strip()
        if name == b"x-api-key":
            return header, value.strip()
    return None, b""


async def _respond(send: Any, closed: Closed) -> None:
    body = msgspec.json.encode({"message": closed.message})
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if closed.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="headgate"'))
    await send({"type": "http.response.start", "status": closed.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
