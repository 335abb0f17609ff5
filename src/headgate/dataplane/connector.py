"""How endpoints are reached besides requests: TLS contexts, and HTTP/2 with prior knowledge."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from typing import TYPE_CHECKING

from headgate import routing
from headgate.dataplane import tls
from headgate.loop_turns import Turns

if TYPE_CHECKING:
    from headgate.dataplane.http2.translator import Translator


class EngineConnector:
    """The `observe.Connector` of a process that sends no requests itself."""

    def __init__(self) -> None:
        self._contexts = tls.Contexts()

    def tls_context(self, verified: routing.Tls, *, http2: bool = False) -> ssl.SSLContext:
        """The TLS context for endpoints that are verified like this. Raises SSLError."""
        return self._contexts.get(verified, http2=http2)

    def speaking_http2(self, user: asyncio.Protocol, uploads: Turns, downloads: Turns) -> Translator:
        """See `speaking_http2`."""
        return speaking_http2(user, uploads, downloads)

    def keep(self, pools: Iterable[routing.Pool]) -> None:
        """Forget what no pool needs."""
        self._contexts.keep(pool.tls for pool in pools if pool.tls is not None)


def speaking_http2(user: asyncio.Protocol, uploads: Turns, downloads: Turns) -> Translator:
    """A translator between an HTTP/1.1 protocol and the socket of an HTTP/2 endpoint.

    Imported here, because h2 takes megabytes and most processes have no such endpoint.
    """
    from headgate.dataplane.http2.translator import Translator

    return Translator(user, uploads, downloads)
