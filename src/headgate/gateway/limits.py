"""Limits on the client connections of a process, in total and per address.

A connection beyond the total limit displaces one without a request. If there is none, or its address has too
many, it gets an error response and is closed before any of its bytes are parsed.
"""

from __future__ import annotations

import logging
import math
import resource
import socket
from collections import Counter
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from headgate.gateway.settings import GatewaySettings
from headgate.gateway.tls.handshakes import MAX_HANDSHAKES
from headgate.requests.refusal import Refusal

log = logging.getLogger(__name__)

OWN_DESCRIPTORS = 256
"""For listeners, pages, logs, informers, idle connections to endpoints, and rejected clients."""

PER_CLIENT_DESCRIPTORS = 2
"""Its own, and one for the connection to the endpoint that serves it."""


def affordable(settings: GatewaySettings) -> GatewaySettings:
    """The settings with at most as many clients as the process may open descriptors for.

    Raises the soft limit on descriptors as far as needed and allowed, as Go's and nginx's servers do.
    """
    own = OWN_DESCRIPTORS + (MAX_HANDSHAKES if settings.tls.is_on else 0)
    needed = PER_CLIENT_DESCRIPTORS * settings.clients.max_connections + own
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed >= needed:
        return settings
    clients = max(1, (allowed - own) // PER_CLIENT_DESCRIPTORS)
    log.warning(
        "at most %d client connections at a time instead of %d: the process may open %d files and needs %d; "
        "raise its limit (ulimit -n, LimitNOFILE=)",
        clients,
        settings.clients.max_connections,
        allowed,
        needed,
    )
    return settings.replace(clients_max_connections=clients)


LOOK_S = 0.25
"""Minimum interval between searches for connections to displace: searching 10,000 takes about 25 ms."""
AGAIN_S = 1.0
"""How long the result of a search is used, unless half of those connections are closed sooner."""
SLOW_S = 2.0
"""A request that stays below clients.min_body_bytes_per_s for this long may be displaced like an idle
connection."""


class Displaceable(Protocol):
    """A client connection that may be displaced."""

    @property
    def address(self) -> str: ...

    def unused_since(self, now: float) -> float | None:
        """Since when it has had no request; None if it has one."""


Client = TypeVar("Client", bound=Displaceable)


class ClientCount:
    """Admits clients by their number, in total and per address."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._total = 0
        self._by_address: Counter[str] = Counter()
        self.change(settings)

    def change(self, settings: GatewaySettings) -> None:
        """Apply new limits. Open connections stay, even beyond them."""
        self._most = settings.clients.max_connections
        self._most_per_address = settings.clients.max_connections_per_address

    def needs_room(self, address: str) -> bool:
        """Whether a client of this address could be admitted if another connection were closed."""
        is_over = bool(address) and self._by_address[address] >= self._most_per_address
        return self._total == self._most and not is_over

    @property
    def counts_addresses(self) -> bool:
        return self._most_per_address > 0

    def admit(self, address: str) -> Refusal | None:
        """Count a client of an address ("" if addresses are not counted), or return why it is rejected."""
        if self._total >= self._most:
            return Refusal.unavailable(
                f"the gateway has reached its limit of {self._most} client connections: try again, reuse "
                f"connections, or raise clients.max_connections",
                code="too_many_clients",
            )
        if address:
            if self._by_address[address] >= self._most_per_address:
                return Refusal.unavailable(
                    f"the limit is {self._most_per_address} connections per client address: reuse "
                    f"connections, or raise clients.max_connections_per_address",
                    code="too_many_clients_of_address",
                )
            self._by_address[address] += 1
        self._total += 1
        return None

    def left(self, address: str) -> None:
        """Must be called once for each admitted client, with the same address."""
        self._total -= 1
        if address:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    def statistics(self) -> dict[str, int]:
        return {"clients": self._total, "addresses": len(self._by_address)}


class Unused(Generic[Client]):
    """Picks the connection to displace when there are too many: of the address with the most connections
    without a request, the one that has been idle longest. So one client does not cost another its
    connection."""

    def __init__(self) -> None:
        self._found: list[tuple[Client, float]] = []
        """The next one is at the end."""
        self._half = 0
        self._looked_at = -math.inf

    def next(self, clients: Iterable[Client], now: float) -> Client | None:
        """The next connection to displace. None if all have a request, by the last search, which is at most
        LOOK_S old."""
        age_s = now - self._looked_at
        if age_s >= AGAIN_S or (age_s >= LOOK_S and len(self._found) <= self._half):
            self._looked_at = now
            self._found = _in_order(clients, now)
            self._half = len(self._found) // 2
        while self._found:
            client, since = self._found.pop()
            if client.unused_since(now) == since:
                return client
        return None


def _in_order(clients: Iterable[Client], now: float) -> list[tuple[Client, float]]:
    """Sorted so that the last is displaced first."""
    by_network: dict[object, list[tuple[float, int, Client]]] = {}
    for place, client in enumerate(clients):
        since = client.unused_since(now)
        if since is not None:
            by_network.setdefault(_network(client.address), []).append((since, place, client))
    ranked = []
    for found in by_network.values():
        found.sort(reverse=True)
        ranked += [(rank, -since, place, client) for rank, (since, place, client) in enumerate(found)]
    ranked.sort()
    return [(client, -negated) for _, negated, _, client in ranked]


def _network(address: str) -> object:
    """Distinguishes the same clients as `counted_as`, in a tenth of the time."""
    if ":" not in address:
        return address
    try:
        return socket.inet_pton(socket.AF_INET6, address.partition("%")[0])[:8]
    except OSError:
        return address
