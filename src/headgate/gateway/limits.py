"""How many client connections one process takes, and who has how many of them.

A connection beyond a limit is told so and closed before any of its bytes are parsed.
"""

from __future__ import annotations

import ipaddress
import logging
import resource
from collections import Counter

from headgate.gateway.refusals import Refusal
from headgate.gateway.settings import GatewaySettings

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
