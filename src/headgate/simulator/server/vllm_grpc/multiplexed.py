"""HTTP/1.1 and HTTP/2 on one port: who begins with HTTP/2's preface is passed on to another server."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

PREFACE = b"PRI * HTTP/2.0"


def passing_on(path: str) -> type[HttpToolsProtocol]:
    """uvicorn's protocol for HTTP/1.1, that passes HTTP/2 on to the Unix socket at `path`."""

    class Multiplexed(_Multiplexed):
        upstream_path = path

    return Multiplexed


class _Multiplexed(HttpToolsProtocol):
    """One connection. Once it is known to be HTTP/2, its bytes go through as they are."""

    upstream_path: str

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._early = b""
        """What came before it is known which of the two it is."""
        self._is_http1 = False
        self._connecting: asyncio.Task[None] | None = None
        self._upstream: asyncio.Transport | None = None

    def data_received(self, data: bytes) -> None:
        if self._is_http1:
            super().data_received(data)
        elif self._upstream is not None:
            self._upstream.write(data)
        else:
            self._early += data
            self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        if self._upstream is not None:
            self._upstream.abort()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._upstream is not None:
            self._upstream.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._upstream is not None:
            self._upstream.resume_reading()

    def _look(self) -> None:
        if self._connecting is not None or PREFACE.startswith(self._early):
            return
        if not self._early.startswith(PREFACE):
            self._is_http1 = True
            early, self._early = self._early, b""
            super().data_received(early)
            return
        self.transport.pause_reading()
        self._connecting = self.loop.create_task(self._connect())

    async def _connect(self) -> None:
        try:
            transport, _ = await self.loop.create_unix_connection(
                lambda: _Upstream(self.transport), self.upstream_path
            )
        except OSError:
            self.transport.abort()
            return
        self._upstream = transport
        transport.write(self._early)
        self._early = b""
        self.transport.resume_reading()


class _Upstream(asyncio.Protocol):
    """The other half: what the gRPC server says goes to the client."""

    def __init__(self, client: asyncio.Transport) -> None:
        self._client = client

    def data_received(self, data: bytes) -> None:
        self._client.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.close()

    def pause_writing(self) -> None:
        self._client.pause_reading()

    def resume_writing(self) -> None:
        self._client.resume_reading()
