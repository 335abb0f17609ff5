"""Requests to the runtime sidecars of Pods: adapters to load, and how far downloads are.

What a sidecar responds is not trusted: sizes, counts and times are bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, NamedTuple, Self, TypeVar

import httpx2
import msgspec
from msgspec import Meta

from headgate import http_clients

TIMEOUT_S = 5.0
LARGEST_BYTES = 1 << 20
MOST_AT_ONCE = 64

T = TypeVar("T")
_Text = Annotated[str, Meta(max_length=4096)]
_Bytes = Annotated[int, Meta(ge=0, le=2**62)]


class SidecarError(Exception):
    """A sidecar did not respond as expected."""


class Address(NamedTuple):
    """Where a sidecar listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Adapter(msgspec.Struct, frozen=True, order=True, omit_defaults=True):
    """An adapter that an engine should have."""

    name: str
    source: str
    directory: str = ""
    """Where it is, if it need not be downloaded."""


class AdapterState(msgspec.Struct, frozen=True):
    """How an adapter stands in one engine."""

    name: _Text
    source: _Text = ""
    state: _Text = ""
    """Loading, Loaded or Failed."""
    error: _Text = ""


class Download(msgspec.Struct, frozen=True):
    """How far a download is."""

    name: _Text
    phase: _Text = ""
    bytes_done: _Bytes = 0
    bytes_total: _Bytes = 0
    bytes_per_s: float = 0.0
    problem: _Text = ""
    """Why its last request failed, if none succeeded since."""


class _Adapters(msgspec.Struct, frozen=True):
    adapters: Annotated[list[AdapterState], Meta(max_length=4096)] = []


class _Downloads(msgspec.Struct, frozen=True):
    downloads: Annotated[list[Download], Meta(max_length=4096)] = []


class Sidecars:
    """An HTTP client; close it after use."""

    def __init__(self) -> None:
        limits = httpx2.Limits(max_connections=MOST_AT_ONCE, max_keepalive_connections=0)
        transport = http_clients.transport(limits=limits, trust_env=False)
        self._http = httpx2.AsyncClient(transport=transport, timeout=TIMEOUT_S, trust_env=False)
        self.requests = self.failures = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def put_adapters(
        self, address: Address, token: str, adapters: Sequence[Adapter]
    ) -> Sequence[AdapterState]:
        """Tell the sidecar which adapters its engine should have, all of them; returns how they stand.

        Raises SidecarError.
        """
        wanted = msgspec.json.encode({"adapters": adapters})
        return _decoded(
            await self._request("PUT", address, "/v1/adapters", token, wanted), _Adapters
        ).adapters

    async def adapters(self, address: Address, token: str) -> Sequence[AdapterState]:
        """How the adapters stand. Raises SidecarError."""
        body = await self._request("GET", address, "/v1/adapters", token)
        return _decoded(body, _Adapters).adapters

    async def downloads(self, address: Address, token: str) -> Sequence[Download]:
        """How far the Pod's downloads are. Raises SidecarError."""
        body = await self._request("GET", address, "/v1/downloads", token)
        return _decoded(body, _Downloads).downloads

    async def _request(
        self, method: str, address: Address, path: str, token: str, content: bytes | None = None
    ) -> bytes:
        url = f"http://{address}{path}"
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self.requests += 1
        try:
            async with (
                asyncio.timeout(2 * TIMEOUT_S),
                self._http.stream(method, url, content=content, headers=headers) as response,
            ):
                body = b""
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > LARGEST_BYTES:
                        raise SidecarError(
                            f"{method} {url}: the response is larger than {LARGEST_BYTES} bytes"
                        )
        except (httpx2.HTTPError, TimeoutError) as error:
            self.failures += 1
            raise SidecarError(f"{method} {url}: {str(error) or type(error).__name__}") from error
        if not 200 <= response.status_code < 300:
            self.failures += 1
            told = body[:200].decode(errors="replace")
            raise SidecarError(f"{method} {url}: HTTP {response.status_code}: {told}")
        return body


def _decoded(body: bytes, of: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=of)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SidecarError(f"a sidecar's response cannot be read: {error}") from error
