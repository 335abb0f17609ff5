"""HTTP/1.1 for a node's API: one request on each connection, without a body, and its response.

API servers open a connection for each `kubectl logs`, and upgrade it for exec and port-forward.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote

import httptools

MAX_HEAD_BYTES = 16 << 10
MAX_HEADERS = 100
MAX_PARAMETERS = 1000
"""Of a query; each word of a command is one."""
HEAD_S = 10.0
"""Until the request has arrived."""


class RefusedError(Exception):
    """The response to a request that is not served: its status, and a message for the user."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Request:
    method: str
    path: Sequence[str]
    """Its parts, decoded."""
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    """By names in lower case. The values of a repeated header are separated by commas."""

    @property
    def parameters(self) -> Mapping[str, str]:
        """The first value of each parameter."""
        return dict(reversed(self.query))

    @property
    def upgrade(self) -> str:
        """The protocol to which the client wants to change, in lower case."""
        wants = "upgrade" in (word.strip().lower() for word in self.headers.get("connection", "").split(","))
        return self.headers.get("upgrade", "").lower() if wants else ""

    @property
    def token(self) -> str:
        """The bearer token."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""


async def read(reader: asyncio.StreamReader) -> Request | None:
    """The request of a connection; None if the client sends none. Raises RefusedError."""
    try:
        async with asyncio.timeout(HEAD_S):
            head = await reader.readuntil(b"\r\n\r\n")
    except TimeoutError:
        raise RefusedError(HTTPStatus.REQUEST_TIMEOUT, "the request did not arrive in time") from None
    except asyncio.LimitOverrunError:
        raise _too_large() from None
    except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
        return None
    return parse(head)


def parse(head: bytes) -> Request:
    """From a complete head. Raises RefusedError."""
    if len(head) > MAX_HEAD_BYTES:
        raise _too_large()
    parsed = _Head()
    try:
        parser = httptools.HttpRequestParser(parsed)
        parser.feed_data(head)
    except httptools.HttpParserUpgrade:
        pass
    except httptools.HttpParserError as error:
        raise RefusedError(HTTPStatus.BAD_REQUEST, f"the request is not HTTP/1.1: {error}") from error
    if len(parsed.headers) > MAX_HEADERS:
        raise _too_large()
    if not parsed.is_complete:
        raise RefusedError(HTTPStatus.BAD_REQUEST, "the request must not have a body")
    return _request(parser.get_method().decode("latin-1"), parsed)


class _Head:
    """Callbacks of the parser."""

    def __init__(self) -> None:
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_complete = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_message_complete(self) -> None:
        self.is_complete = True


def _request(method: str, head: _Head) -> Request:
    headers: dict[str, str] = {}
    for name, value in head.headers:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise RefusedError(HTTPStatus.BAD_REQUEST, "the request must not have a body")
    try:
        url = httptools.parse_url(head.url)
        path = [unquote(part, errors="strict") for part in url.path.decode("ascii").strip("/").split("/")]
        text = (url.query or b"").decode("ascii")
        query = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except (httptools.HttpParserInvalidURLError, ValueError) as error:
        raise RefusedError(HTTPStatus.BAD_REQUEST, f"the URL cannot be read: {error}") from error
    return Request(method, path, query, headers)


def _too_large() -> RefusedError:
    status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    return RefusedError(status, f"the request has more than {MAX_HEAD_BYTES} bytes or {MAX_HEADERS} headers")


@dataclass(frozen=True)
class Response:
    """A body of text, or one that is sent as it is made."""

    body: bytes | AsyncGenerator[bytes, None]
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


async def respond(writer: asyncio.StreamWriter, response: Response, *, has_body: bool = True) -> None:
    """Send a response, after which the connection ends. Raises ConnectionError if the client is gone."""
    body = response.body
    length = f"content-length: {len(body)}" if isinstance(body, bytes) else "transfer-encoding: chunked"
    _head(
        writer,
        response.status,
        f"content-type: {response.content_type}",
        length,
        "x-content-type-options: nosniff",
        "connection: close",
        *(f"{name}: {value}" for name, value in response.headers.items()),
    )
    if not isinstance(body, bytes):
        async with aclosing(body):
            await writer.drain()
            async for piece in body if has_body else _nothing():
                if piece:
                    writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    await writer.drain()
            writer.write(b"0\r\n\r\n")
    elif has_body:
        writer.write(body)
    await writer.drain()


def switch(writer: asyncio.StreamWriter, upgrade: str, protocol: str) -> None:
    """Change the protocol of the connection."""
    lines = ("connection: Upgrade", f"upgrade: {upgrade}", f"x-stream-protocol-version: {protocol}")
    _head(writer, HTTPStatus.SWITCHING_PROTOCOLS, *lines)


def _head(writer: asyncio.StreamWriter, status: HTTPStatus, *lines: str) -> None:
    text = "\r\n".join((f"HTTP/1.1 {status.value} {status.phrase}", *lines, "", ""))
    writer.write(text.encode("latin-1"))


async def _nothing() -> AsyncGenerator[bytes, None]:
    for _ in ():
        yield b""


def refusal(error: RefusedError) -> Response:
    headers = {"www-authenticate": "Bearer"} if error.status is HTTPStatus.UNAUTHORIZED else {}
    return Response(f"{error}\n".encode(), error.status, headers=headers)
