"""What becomes of an accepted connection: TLS or not, and then HTTP/1.1 or HTTP/2."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from headgate.gateway.tls.handshakes import Accepted

if TYPE_CHECKING:
    from headgate.gateway.clients import Clients

Make = Callable[[], asyncio.Protocol]
"""Makes the protocol of an HTTP/1.1 connection."""


def protocols(clients: Clients, make: Make, tls: ssl.SSLContext | None, *, plain: Make | None = None) -> Make:
    """Makes the protocols of the connections that a port accepts. `plain`: makes those of clients that do not
    speak the TLS that they should; by default, they get an error."""
    if tls is None:
        return make

    def agreed_on(is_http2: bool) -> asyncio.Protocol:
        return clients.http2.protocol(make) if is_http2 else make()

    return lambda: Accepted(clients.handshakes, tls, agreed_on, plain or clients.insecure.protocol)
