"""Resolves host names, each in a thread of its own, so that a slow one delays no other.

uvloop resolves two names at a time, and continues with abandoned lookups. Tenants' objects name hosts, and a
name server that does not respond takes 10 s for each: a few such names would keep everyone else from
connecting.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

_ELSEWHERE = frozenset({errno.ECONNREFUSED, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL})
"""Errors after which the next address is tried."""


class Lookup:
    """The addresses of one host, with at most one lookup at a time."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._running: asyncio.Future[list[str]] | None = None
        self._is_name = True
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(host)
            self._is_name = False

    async def addresses(self) -> list[str]:
        """Its present addresses. Raises OSError."""
        if not self._is_name:
            return [self._host]
        if self._running is None:
            self._running = self._begin()
        return await asyncio.shield(self._running)

    async def connected(self, connect: Callable[[str], Awaitable[T]]) -> T:
        """The result of `connect` for the first reachable address. Raises OSError."""
        *others, last = await self.addresses()
        for address in others:
            try:
                return await connect(address)
            except OSError as error:
                if error.errno not in _ELSEWHERE:
                    raise
        return await connect(last)

    def _begin(self) -> asyncio.Future[list[str]]:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[str]] = loop.create_future()

        def done(result: list[str] | OSError) -> None:
            self._running = None
            if isinstance(result, OSError):
                found.set_exception(result)
                found.exception()  # marks it as retrieved: it is no error if no caller waits any more
            else:
                found.set_result(result)

        def look_up() -> None:
            result = _resolved(self._host)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(done, result)

        # A daemon: the process does not wait for it when it ends.
        threading.Thread(target=look_up, name="lookup", daemon=True).start()
        return found


def _resolved(host: str) -> list[str] | OSError:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return error
    except UnicodeError:
        return socket.gaierror(socket.EAI_NONAME, "it is not a valid name")
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def why_unreachable(error: Exception) -> str:
    """Why a new connection failed, in words that follow the name of a server."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"has a certificate that is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"does not speak TLS as it should: {error.reason or error}"
    return "took too long to connect to" if isinstance(error, TimeoutError) else "cannot be connected to"
