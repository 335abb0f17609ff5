"""What passes between clients and the server, in the log: heads and the beginnings of bodies."""

import logging
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 4096
"""Of a body that are logged."""
_SECRET = frozenset(
    (b"authorization", b"proxy-authorization", b"cookie", b"set-cookie", b"x-api-key", b"api-key")
)
_log = logging.getLogger(__name__)


class HttpLog:
    """Logs each exchange of an application once it ends, whichever way it does."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        passing = _Passing(receive, send)
        try:
            await self._app(scope, passing.receive, passing.send)
        finally:
            target = (
                scope.get("raw_path", b"") + (b"?" if scope["query_string"] else b"") + scope["query_string"]
            )
            _log.info(
                "request: %s %s %s\n%s",
                scope["method"],
                _printable(target),
                _heads(scope["headers"]),
                passing.asked,
            )
            _log.info("answer: %s %s\n%s", passing.status or "none", _heads(passing.headers), passing.told)


class _Body:
    """The beginning of a body, and how long it was."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._size = 0

    def add(self, part: bytes) -> None:
        self._size += len(part)
        self._kept += part[: MAX_BODY_BYTES - len(self._kept)]

    def __str__(self) -> str:
        more = self._size - len(self._kept)
        return self._kept.decode("utf-8", "replace") + (f"... ({more} bytes more)" if more else "")


class _Passing:
    """One exchange, as it passes."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self.asked, self.told = _Body(), _Body()
        self.status: int | None = None
        self.headers: list[tuple[bytes, bytes]] = []

    @property
    def transport(self) -> Any:
        """Of the connection, for who cuts it."""
        return self._send.__self__.transport  # type: ignore[attr-defined]

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self.asked.add(message["body"])
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], message["headers"]
        elif message["type"] == "http.response.body":
            self.told.add(message["body"])
        await self._send(message)


def _heads(headers: list[tuple[bytes, bytes]]) -> str:
    """Each as name=value; what lets clients in is not told."""
    told = ("***" if name in _SECRET else _printable(value) for name, value in headers)
    return " ".join(f"{_printable(name)}={value}" for (name, _), value in zip(headers, told, strict=True))


def _printable(value: bytes) -> str:
    return repr(value.decode("latin-1"))[1:-1]
