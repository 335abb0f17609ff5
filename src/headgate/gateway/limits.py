"""How many client connections one process takes, and who has how many of them.

A connection beyond the limit of all takes the place of one without a request. Where there is none, or its
address has too many, it is told so and closed before any of its bytes are parsed.
"""

from __future__ import annotations

import ipaddress
import logging
import math
import resource
import socket
from collections import Counter
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from headgate.gateway.settings import GatewaySettings
from headgate.requests.refusal import Refusal

log = logging.getLogger(__name__)

OWN_DESCRIPTORS = 256
"""For listeners, pages, logs, informers, idle connections to endpoints, and clients being turned away."""

PER_CLIENT_DESCRIPTORS = 2
"""Its own, and one for the connection to the endpoint that serves it."""


def affordable(settings: GatewaySettings) -> GatewaySettings:
    """The settings with as many clients as the process may open descriptors for.

    The soft limit on descriptors is raised as far as needed and allowed, as Go's and nginx's servers do.
    """
    needed = PER_CLIENT_DESCRIPTORS * settings.clients.max_connections + OWN_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed >= needed:
        return settings
    clients = max(1, (allowed - OWN_DESCRIPTORS) // PER_CLIENT_DESCRIPTORS)
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
"""How often the connections are searched at most for those that may be closed: 10,000 take some 25 ms."""
AGAIN_S = 1.0
"""How long what was found is used, unless half of it has been closed sooner."""
SLOW_S = 2.0
"""A request that arrives more slowly than clients.min_body_bytes_per_s for so long has no better claim than
an idle connection."""


class Displaceable(Protocol):
    """A client connection that may have to make room."""

    @property
    def address(self) -> str: ...

    def unused_since(self, now: float) -> float | None:
        """Since when it has no request; None if it has one."""


Client = TypeVar("Client", bound=Displaceable)


class ClientCount:
    """Admits clients by the count of those that there are, in total and of each address."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._total = 0
        self._by_address: Counter[str] = Counter()
        self.change(settings)

    def change(self, settings: GatewaySettings) -> None:
        """Who is in stays, even beyond the new limits."""
        self._most = settings.clients.max_connections
        self._most_per_address = settings.clients.max_connections_per_address

    def needs_room(self, address: str) -> bool:
        """Whether a client of an address may come in once another connection is closed."""
        is_over = bool(address) and self._by_address[address] >= self._most_per_address
        return self._total == self._most and not is_over

    @property
    def counts_addresses(self) -> bool:
        return self._most_per_address > 0

    def admit(self, address: str) -> Refusal | None:
        """Counts a client of an address ("" where those are not counted), or says why it may not come in."""
        if self._total >= self._most:
            return Refusal.unavailable(
                f"the gateway has {self._most} client connections, which is its limit: try again, keep "
                f"connections for several requests, or raise clients.max_connections",
                code="too_many_clients",
            )
        if address:
            if self._by_address[address] >= self._most_per_address:
                return Refusal.unavailable(
                    f"the limit is {self._most_per_address} connections for each client address: keep them "
                    f"for several requests, or raise clients.max_connections_per_address",
                    code="too_many_clients_of_address",
                )
            self._by_address[address] += 1
        self._total += 1
        return None

    def left(self, address: str) -> None:
        """Must be called once for each client that was admitted, with the same address."""
        self._total -= 1
        if address:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    def statistics(self) -> dict[str, int]:
        return {"clients": self._total, "addresses": len(self._by_address)}


class Unused(Generic[Client]):
    """Finds the connection that makes room when there are too many: of the address that has most without a
    request the one that has had none for longest, so that one client does not cost another its connection."""

    def __init__(self) -> None:
        self._found: list[tuple[Client, float]] = []
        """The next is the last."""
        self._half = 0
        self._looked_at = -math.inf

    def next(self, clients: Iterable[Client], now: float) -> Client | None:
        """None if all have a request, as far as is known: they are looked at every LOOK_S at most."""
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
    """The last is the first to go."""
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
    """What `counted_as` tells apart, in a tenth of its time."""
    if ":" not in address:
        return address
    try:
        return socket.inet_pton(socket.AF_INET6, address.partition("%")[0])[:8]
    except OSError:
        return address


def counted_as(address: str) -> str:
    """The address that a client counts under: of IPv6 the network of 64 bits, which one host has whole."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((parsed, 64), strict=False))
