"""One HTTP exchange over raw ASGI: a bounded request body, and headers that every response carries."""

import asyncio
import math
import socket
import struct
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import msgspec
from starlette.types import Receive, Scope, Send

from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.settings import ServerSettings

if TYPE_CHECKING:
    from headgate.simulator.server.failures.mishaps import Mishap

JSON = b"application/json"
EVENT_STREAM = b"text/event-stream; charset=utf-8"
MAX_REQUEST_ID_LENGTH = 256
_EXTRA_HEADERS = {
    408: [(b"connection", b"close")],  # the rest of its body may never arrive
}

T = TypeVar("T")


Guard = Callable[["Exchange"], Awaitable[None]]


class ClientGoneError(Exception):
    """The client has disconnected."""


class Exchange:
    """A request, and methods to respond to it."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, settings: ServerSettings, guard: Guard
    ) -> None:
        self._guard = guard
        self._scope = scope
        self._receive = receive
        self._send = send
        self._settings = settings
        self.started = False
        self.mishap: Mishap | None = None
        """What goes wrong with the response."""
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self.request_id = _printable(self._headers.get(b"x-request-id", b""))

    @property
    def method(self) -> str:
        return str(self._scope["method"])

    async def read_body(self) -> bytes:
        """Read the whole body; rejects one that is too large, too slow, or incomplete."""
        limit = self._settings.max_body_bytes
        try:
            async with asyncio.timeout(self._settings.body_timeout_s):
                body = bytearray()
                while True:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise ApiError(400, "The client went away before its body was complete")
                    body += message["body"]
                    if len(body) > limit:
                        told = f"The body is larger than {limit} bytes; send less, or raise"
                        raise ApiError(413, f"{told} --max-request-body-size-mb of the simulated engine")
                    if not message["more_body"]:
                        return bytes(body)
        except TimeoutError as error:
            raise ApiError(408, f"The body did not arrive in {self._settings.body_timeout_s:g} s") from error

    def header(self, name: bytes) -> str:
        """A request header by its lower-case name; empty if absent."""
        return self._headers.get(name, b"").decode("latin-1")

    def path_param(self, name: str) -> Any:
        """A path parameter, as converted by the route."""
        return self._scope["path_params"][name]

    async def unless_gone(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; `ClientGoneError` if the client disconnects. Only after the body was read."""
        doing = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(self.disconnected())
        try:
            await asyncio.wait((doing, gone), return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                raise ClientGoneError
            return doing.result()
        finally:
            for task in (doing, gone):
                task.cancel()
            await asyncio.gather(doing, gone, return_exceptions=True)

    async def disconnected(self) -> None:
        """Return once the client disconnects. Only after the body was read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def require_up(self) -> None:
        """Raise `ClientGoneError`, and cut the connection, if the engine has crashed."""
        await self._guard(self)

    async def start(
        self, status: int, content_type: bytes, *, length: int | None = None, retry_after_s: float = 0
    ) -> None:
        """Send the head; without a length, the body follows in chunks."""
        headers = [(b"content-type", content_type)]
        if length is not None:
            headers.append((b"content-length", b"%d" % length))
        if self.request_id:
            headers.append((b"x-request-id", self.request_id.encode()))
        if self._settings.pod_name:
            headers.append((b"x-inference-pod", self._settings.pod_name.encode()))
        if self._settings.pod_namespace:
            headers.append((b"x-inference-namespace", self._settings.pod_namespace.encode()))
        headers += _EXTRA_HEADERS.get(status, ())
        if retry_after_s:
            headers.append((b"retry-after", b"%d" % math.ceil(retry_after_s)))
        headers.append((b"x-inference-port", b"%d" % self._scope["server"][1]))
        self.started = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, body: bytes, *, more: bool = True) -> None:
        """Send the next part of a streamed response."""
        if self.mishap is None:
            await self._send({"type": "http.response.body", "body": body, "more_body": more})
        else:
            await self.mishap.write(self, body, streamed=True, more=more)

    async def answer(
        self, body: bytes, *, status: int = 200, content_type: bytes = JSON, retry_after_s: float = 0
    ) -> None:
        """Send a complete response."""
        if self.mishap is None:
            await self.start(status, content_type, length=len(body), retry_after_s=retry_after_s)
            await self.send_body(body, more=False)
            return
        body = self.mishap.whole(body)
        await self.start(status, content_type, length=len(body), retry_after_s=retry_after_s)
        await self.mishap.write(self, body, streamed=False, more=False)

    async def send_body(self, body: bytes, *, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def reset(self) -> NoReturn:
        """Cut the connection like a process that died: the peer sees a reset instead of an end.

        ASGI does not support this, so it uses the transport behind uvicorn's `send`.
        """
        transport: asyncio.Transport = self._send.__self__.transport  # type: ignore[attr-defined]
        raw = transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
        await self.disconnected()
        raise ClientGoneError

    async def answer_json(self, value: object) -> None:
        await self.answer(msgspec.json.encode(value))


def _printable(value: bytes) -> str:
    """The request ID if it is safe to send back, otherwise ""."""
    text = value[:MAX_REQUEST_ID_LENGTH].decode("latin-1")
    return text if text.isascii() and text.isprintable() else ""
