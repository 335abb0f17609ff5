"""The engine beside the sidecar, over HTTP."""

from __future__ import annotations

import asyncio
import re
from typing import Final
from urllib.parse import urlsplit

from headgate import engines
from headgate.engine_client import Client, FetchError, Response

MAX_PAGE_BYTES: Final = 4 << 20
MAX_LIST_BYTES: Final = 1 << 20
MAX_MESSAGE_BYTES: Final = 64 << 10
PAGE_TIMEOUT_S: Final = 5.0
LOAD_TIMEOUT_S: Final = 300.0
"""An adapter may come from a slow disk."""

_TEXT: Final = "text/plain;version=0.0.4"
_IPV6 = re.compile(r"^(http://)([0-9a-fA-F:]*:[0-9a-fA-F:]*)(:[0-9]+/?$)")
"""An address as `http://$(POD_IP):8000` has it, without brackets."""

__all__ = ["Address", "AddressError", "Engine", "FetchError", "is_down"]


class AddressError(ValueError):
    """The base URL of an engine is not one."""


class Address:
    """Where the engine is: the host, the port and the path of its base URL. Raises AddressError."""

    def __init__(self, base_url: str) -> None:
        try:
            parts = urlsplit(_IPV6.sub(r"\1[\2]\3", base_url))
            port = parts.port
        except ValueError as error:
            raise AddressError(f"{base_url!r} is not a URL: {error}") from error
        if parts.scheme != "http" or not parts.hostname or parts.query or parts.fragment or parts.username:
            raise AddressError(f"{base_url!r} is not a URL such as http://localhost:8000")
        self.host = parts.hostname
        self.port = port or 80
        self.path = parts.path.rstrip("/")
        if not is_path(self.path or "/"):
            raise AddressError(f"{base_url!r} has a path with characters that need escapes")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{self.path}"


def is_path(text: str) -> bool:
    """Whether it can stand in a request line."""
    return text.startswith("/") and text.isascii() and text.isprintable() and " " not in text


def is_down(error: FetchError) -> bool:
    """Whether nothing listens at the engine's address."""
    return isinstance(error.__cause__, ConnectionRefusedError)


class Engine:
    """The engine, each of whose purposes has one connection, so that none waits for another."""

    def __init__(self, kind: engines.Engine, address: Address, metrics_path: str) -> None:
        self.kind = kind
        self.address = address
        self._metrics_path = metrics_path
        page_port = kind.metrics.port if kind.metrics is not None else 0
        self.has_page_elsewhere = page_port not in (0, address.port)
        """Whether another server than that of requests has the page."""
        self._pages, self._looks = (_Connection(address, page_port) for _ in range(2))
        self._lists, self._calls = (_Connection(address) for _ in range(2))

    async def page(self) -> Response:
        """Its metrics page for a scraper, whatever the status. Raises FetchError."""
        return await self._pages.get(self._metrics_path, _TEXT, MAX_PAGE_BYTES)

    async def look(self) -> Response:
        """The same for hooks. Raises FetchError."""
        return await self._looks.get(self._metrics_path, _TEXT, MAX_PAGE_BYTES)

    async def models(self) -> Response:
        """Its list of models. Raises FetchError."""
        return await self._lists.get("/v1/models", "application/json", MAX_LIST_BYTES)

    async def call(self, path: str, body: bytes) -> Response:
        """Send it JSON. Raises FetchError."""
        return await self._calls.post(path, body)

    def close(self) -> None:
        for each in (self._pages, self._looks, self._lists, self._calls):
            each.close()


class _Connection:
    """Requests of one purpose, one after another."""

    def __init__(self, address: Address, other_port: int = 0) -> None:
        """`other_port`: the port of a server without the path of the address."""
        self._path = "" if other_port else address.path
        self._client = Client(address.host, other_port or address.port, None, "")
        self._turn = asyncio.Lock()

    async def get(self, path: str, accept: str, max_bytes: int) -> Response:
        async with self._turn:
            try:
                return await self._client.get(self._path + path, accept, max_bytes, PAGE_TIMEOUT_S)
            finally:
                self._client.release()

    async def post(self, path: str, body: bytes) -> Response:
        async with self._turn:
            try:
                return await self._client.post(self._path + path, body, MAX_MESSAGE_BYTES, LOAD_TIMEOUT_S)
            finally:
                self._client.release()

    def close(self) -> None:
        self._client.close()
