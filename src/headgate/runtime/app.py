"""The HTTP API of the sidecar, as an ASGI application."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar

import msgspec

from headgate.runtime.errors import ApiError

__all__ = ["Application", "Call", "Handler"]

T = TypeVar("T")
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

MAX_BODY_BYTES: Final = 1 << 20
MAX_BUSY: Final = 48
"""Requests at a time; the server has more connections, for the kubelet's probes."""

log = logging.getLogger(__name__)


class ClientGoneError(Exception):
    """The client left before its request was complete."""


class Response(msgspec.Struct, frozen=True):
    """What a handler returns."""

    body: bytes
    content_type: bytes = b"application/json"
    status: int = 200


def json(content: object, status: int = 200) -> Response:
    """A response in JSON."""
    return Response(msgspec.json.encode(content), status=status)


class Call:
    """One request."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        self._headers: list[tuple[bytes, bytes]] = scope["headers"]
        client = scope.get("client")
        self.client = str(client[0]) if client else ""

    def header(self, name: bytes) -> bytes:
        """The header's value; empty if there is none, or several."""
        found = [value for key, value in self._headers if key == name]
        return found[0] if len(found) == 1 else b""

    async def body(self) -> bytes:
        """The complete body. Raises ApiError or ClientGoneError."""
        length = self.header(b"content-length")
        if length.isdigit() and (len(length) > 9 or int(length) > MAX_BODY_BYTES):
            raise ApiError(413, f"the body has more than {MAX_BODY_BYTES} bytes")
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            part: bytes = message.get("body", b"")
            size += len(part)
            if size > MAX_BODY_BYTES:
                raise ApiError(413, f"the body has more than {MAX_BODY_BYTES} bytes")
            parts.append(part)
            if not message.get("more_body"):
                return b"".join(parts)

    async def while_connected(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, which is cancelled if the client leaves. Call it after the body was read.

        Raises ClientGoneError.
        """
        working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(self._left())
        try:
            await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise ClientGoneError
            return working.result()
        finally:
            for task in (working, leaving):
                task.cancel()
            await asyncio.gather(working, leaving, return_exceptions=True)

    async def _left(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


Handler = Callable[[Call], Awaitable[Response]]


class Application:
    """Calls the handler of a method and a path."""

    def __init__(self, handlers: Mapping[tuple[str, str], Handler]) -> None:
        self._handlers = handlers
        self._busy = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._busy >= MAX_BUSY:
            refused = ApiError(503, f"{MAX_BUSY} requests are being served: try again")
            await _send(send, _error(refused), refused.headers)
            return
        self._busy += 1
        try:
            await self._respond(scope, receive, send)
        finally:
            self._busy -= 1

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            handler = self._find(scope["method"], scope["path"])
            await _send(send, await handler(Call(scope, receive)))
        except ApiError as error:
            await _send(send, _error(error), error.headers)
        except ClientGoneError:
            pass
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            await _send(send, _error(ApiError(500, "failed: see the log of the sidecar")))

    def _find(self, method: str, path: str) -> Handler:
        handler = self._handlers.get((method, path))
        if handler is not None:
            return handler
        methods = sorted(each for each, known in self._handlers if known == path)
        if methods:
            headers = [(b"allow", ", ".join(methods).encode())]
            raise ApiError(405, f"use {' or '.join(methods)}", headers)
        known = ", ".join(dict.fromkeys(each for _, each in self._handlers))
        raise ApiError(404, f"there is no such path; there are {known}")


def _error(error: ApiError) -> Response:
    return Response(msgspec.json.encode({"message": str(error)}), status=error.status)


async def _send(send: Send, response: Response, more: list[tuple[bytes, bytes]] | None = None) -> None:
    headers = [
        (b"content-type", response.content_type),
        (b"content-length", b"%d" % len(response.body)),
        *(more or ()),
    ]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})
