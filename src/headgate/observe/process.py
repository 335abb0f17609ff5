"""What asking engines needs of the process that serves requests, and whom it tells what it heard."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from headgate import fleet, routing
from headgate.loop_turns import Turns


class Connector(Protocol):
    """How endpoints are connected to, as it is done for requests."""

    def tls_context(self, verified: routing.Tls, *, http2: bool = False) -> ssl.SSLContext:
        """Raises SSLError if its authorities are none."""

    def speaking_http2(self, user: asyncio.Protocol, uploads: Turns, downloads: Turns) -> asyncio.Protocol:
        """Stands between a socket and a protocol of HTTP/1.1 where the endpoint speaks HTTP/2."""


@dataclass(frozen=True, kw_only=True)
class Process:
    loop: asyncio.AbstractEventLoop
    clock: Callable[[], float]
    """Monotonic seconds."""
    rng: random.Random
    spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    """Starts work that the process cancels when it ends."""
    connector: Connector


@dataclass(frozen=True, kw_only=True)
class Listener:
    """Who is told what was read of an endpoint, and knows who waits for it."""

    heard: Callable[[fleet.EndpointState], None]
    """The endpoint has another reading, or none any more."""
    restarted: Callable[[fleet.EndpointState], None]
    """Its engine has started anew: caches and adapters are gone."""
    is_waited_for: Callable[[fleet.EndpointState], bool]
    """Whether requests wait until it, or another of its pool, has room."""
