"""HTTP clients that close the connections of cancelled requests."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Any

import httpcore2
import httpx2


def verifying(context: ssl.SSLContext) -> ssl.SSLContext:
    """Make a context verify the same way on each Python: since 3.13, the default context rejects CA
    certificates that lack an extension of RFC 5280, as many private CAs of companies and clusters do."""
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def transport(**options: Any) -> httpx2.AsyncHTTPTransport:
    """The transport of an `httpx2.AsyncClient`; `options` are httpx2's."""
    made = httpx2.AsyncHTTPTransport(**options)
    made._pool._network_backend = _Backend()  # httpx2 has no option for it
    return made


class _Backend(httpcore2.AnyIOBackend):
    """httpcore's backend, but a connection that is cancelled during its TLS handshake is closed, not left to
    the garbage collector; and one that the server closes at once fails as one."""

    async def connect_tcp(
        self, *args: Any, socket_options: Iterable[Any] | None = None, **options: Any
    ) -> httpcore2.AsyncNetworkStream:
        stream = _Stream(await super().connect_tcp(*args, **options))
        try:
            raw = stream.get_extra_info("socket")
            if raw is None:
                raise httpcore2.ConnectError("the server closed the connection at once")
            for option in socket_options or ():
                raw.setsockopt(*option)
        except BaseException as error:
            await stream.aclose()
            if isinstance(error, OSError):
                raise httpcore2.ConnectError(str(error)) from error
            raise
        return stream


class _Stream(httpcore2.AsyncNetworkStream):
    def __init__(self, plain: httpcore2.AsyncNetworkStream) -> None:
        self._plain = plain
        self.read, self.write = plain.read, plain.write  # type: ignore[method-assign]
        self.aclose = plain.aclose  # type: ignore[method-assign]

    def get_extra_info(self, info: str) -> Any:
        try:
            return self._plain.get_extra_info(info)
        except AttributeError:  # on uvloop, a connection that the server has closed has no socket
            return True if info == "is_readable" else None

    async def start_tls(self, *args: Any, **options: Any) -> httpcore2.AsyncNetworkStream:
        try:
            return _Stream(await self._plain.start_tls(*args, **options))
        except BaseException:
            await self._plain.aclose()
            raise
