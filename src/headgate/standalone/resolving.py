"""Finds the servers behind an endpoint URL: the addresses of its host name, or the targets of a DNS service.

Without servers of its own, it asks the system for addresses, so that /etc/hosts and its caches count, and the
name servers of the system for services.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import socket
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from headgate.lookup import Lookup
from headgate.standalone.urls import EndpointUrl, is_address

TIMEOUT_S = 5.0
MAX_SERVERS = 256
"""Of one URL; more are left out."""
_DNS_PORT = 53


class Server(NamedTuple):
    """One server of a URL. `share` is its weight among those of its DNS service."""

    host: str
    port: int
    share: float = 1.0


class Found(NamedTuple):
    """The servers of a URL, and how long they count, in seconds; infinite if the resolver does not say."""

    servers: tuple[Server, ...]
    ttl_s: float = math.inf
    is_cut: bool = False
    """Whether there are more than MAX_SERVERS."""


class LookupFailedError(Exception):
    """The servers are not known; `is_gone` if that is because the name does not exist, or has no records."""

    def __init__(self, message: str, *, is_gone: bool = False) -> None:
        super().__init__(message)
        self.is_gone = is_gone


class Resolver:
    """Looks up URLs, at these DNS servers or those of the system."""

    def __init__(self, servers: Sequence[str] = (), failures: int = 0) -> None:
        """`failures`: of the resolver before."""
        self.failures = failures
        """Failed lookups so far."""
        self._servers = tuple(servers)
        self._lookups: dict[str, Lookup] = {}

    async def find(self, url: EndpointUrl) -> Found:
        """The servers of a URL, in a stable order. Raises LookupFailedError."""
        if url.is_address:
            return Found((Server(url.host, url.port),))
        try:
            return await self._found(url)
        finally:
            # dnspython waits by asyncio.wait_for, which may swallow a cancellation in Python 3.11.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise asyncio.CancelledError

    async def _found(self, url: EndpointUrl) -> Found:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                found = await (self._of_service(url) if url.is_srv else self._of_host(url.host, url.port))
        except TimeoutError:
            self.failures += 1
            raise LookupFailedError(f"DNS did not answer within {TIMEOUT_S:g} s") from None
        except LookupFailedError:
            self.failures += 1
            raise
        servers = sorted(set(found.servers))
        return Found(tuple(servers[:MAX_SERVERS]), found.ttl_s, len(servers) > MAX_SERVERS)

    async def _of_service(self, url: EndpointUrl) -> Found:
        """The targets of the first priority. Those of https keep their names, which certificates have."""
        records, ttl_s = await self._ask(url.host, "SRV")
        first = min(record.priority for record in records)
        targets = [record for record in records if record.priority == first]
        if all(str(record.target) == "." for record in targets):
            raise LookupFailedError(f"the service {url.host} is not available", is_gone=True)
        heaviest = max(record.weight for record in targets)
        found: list[Server] = []
        for record in targets:
            host = str(record.target).rstrip(".")
            # A weight of 0 is a small one beside others, and no weight if all have it.
            share = max(record.weight, 0.1) if heaviest else 1.0
            if url.is_https:
                found.append(Server(host, record.port, share))
                continue
            each = await self._of_host(host, record.port)
            ttl_s = min(ttl_s, each.ttl_s)
            found += [server._replace(share=share) for server in each.servers]
        return Found(tuple(found), ttl_s)

    async def _of_host(self, host: str, port: int) -> Found:
        if is_address(host):
            return Found((Server(host, port),))
        if self._servers:
            return await self._addresses(host, port)
        lookup = self._lookups.setdefault(host, Lookup(host))
        try:
            addresses = await lookup.addresses()
        except OSError as error:
            is_gone = isinstance(error, socket.gaierror) and error.errno in _GONE
            raise LookupFailedError(f"{host}: {error.strerror or error}", is_gone=is_gone) from error
        return Found(tuple(Server(address, port) for address in one_family(addresses)))

    async def _addresses(self, host: str, port: int) -> Found:
        """The same from our own DNS servers: IPv6 only if there is no IPv4."""
        try:
            records, ttl_s = await self._ask(host, "A")
        except LookupFailedError as error:
            if not error.is_gone:
                raise
            records, ttl_s = await self._ask(host, "AAAA")
        return Found(tuple(Server(record.address, port) for record in records), ttl_s)

    async def _ask(self, name: str, kind: str) -> tuple[list[Any], float]:
        """Records, and how long they count in seconds. Raises LookupFailedError."""
        # Imported here: most gateways have no endpoint that needs it.
        import dns.asyncresolver
        import dns.exception
        import dns.name
        import dns.resolver

        try:
            resolver = dns.asyncresolver.Resolver(configure=not self._servers)
            resolver.lifetime = TIMEOUT_S
            if self._servers:
                resolver.nameservers = [_nameserver(each) for each in self._servers]
            answer = await resolver.resolve(name, kind)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer) as error:
            raise LookupFailedError(f"DNS has no {kind} record of {name}", is_gone=True) from error
        except (dns.exception.DNSException, OSError, ValueError) as error:
            raise LookupFailedError(f"DNS does not tell the {kind} records of {name}: {error}") from error
        return list(answer), float(answer.rrset.ttl if answer.rrset is not None else 0)


_GONE = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


def one_family(addresses: Iterable[str]) -> list[str]:
    """The IPv4 addresses, or those of IPv6 if there are no others: both would be two endpoints of one
    server."""
    every = list(dict.fromkeys(addresses))
    return [each for each in every if ":" not in each] or every


def server_problems(texts: Iterable[str]) -> list[str]:
    """What is wrong with addresses of DNS servers."""
    found = []
    for text in texts:
        host, port = _parts(text)
        if not is_address(host) or not 0 < port < 65_536:
            found.append(
                f"{text[:64]!r} is no address of a DNS server: write one such as 10.0.0.2 or [fd00::2]:53"
            )
    return found


def _parts(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":") if text.count(":") == 1 or "]:" in text else (text, "", "")
    number = (
        int(port) if port.isascii() and port.isdecimal() and len(port) <= 5 else (0 if port else _DNS_PORT)
    )
    return host.strip("[]"), number


def _nameserver(text: str) -> Any:
    import dns.nameserver

    host, port = _parts(text)
    return dns.nameserver.Do53Nameserver(str(ipaddress.ip_address(host)), port)
