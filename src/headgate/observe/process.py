"""The interfaces to the process that serves requests, and to the listener of readings."""

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
    """Connects to endpoints as for requests."""

    def tls_context(self, verified: routing.Tls, *, http2: bool = False) -> ssl.SSLContext:
        """Raises SSLError if its CA certificates are invalid."""

    def speaking_http2(self, user: asyncio.Protocol, uploads: Turns, downloads: Turns) -> asyncio.Protocol:
        """The adapter between a socket and an HTTP/1.1 protocol for an endpoint that speaks HTTP/2."""


@dataclass(frozen=True, kw_only=True)
class Process:
    loop: asyncio.AbstractEventLoop
    clock: Callable[[], float]
    """Monotonic seconds."""
    rng: random.Random
    spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    """Starts a task that the process cancels when it ends."""
    connector: Connector


@dataclass(frozen=True, kw_only=True)
class Listener:
    """Is notified of readings, and knows which endpoints have requests queued for them."""

    heard: Callable[[fleet.EndpointState], None]
    """The endpoint has a new reading, or none any more."""
    restarted: Callable[[fleet.EndpointState], None]
    """The endpoint's engine has restarted: caches and adapters are gone."""
    is_waited_for: Callable[[fleet.EndpointState], bool]
    """Whether requests are queued for it or its pool."""
