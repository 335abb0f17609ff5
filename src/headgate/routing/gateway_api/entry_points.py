"""Entry points: ports and host names at which requests of the Gateway API come in, with their rules.

They stand beside the Snapshot of models and pools: a rule leads to one of its pools by name, or to a Service.
Both are immutable, and a request keeps the entry points that it started with.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headgate.routing.gateway_api.backends import ServicePort
from headgate.routing.gateway_api.certificates import Certificate
from headgate.routing.gateway_api.entry_list import Entry, EntryList, EntryRule
from headgate.routing.gateway_api.hostnames import HostTable
from headgate.routing.gateway_api.listeners import Place
from headgate.routing.gateway_api.matches import RequestHead
from headgate.routing.gateway_api.services import ServiceEndpoints
from headgate.routing.patterns import Work


class VirtualHost(msgspec.Struct, frozen=True):
    """The rules of all listeners with one place and host name."""

    hostname: str
    """As the listener has it; empty for any."""
    entries: HostTable[EntryList]
    """By the host names of routes: all entries that a request for the host may match."""
    certificates: tuple[Certificate, ...] = ()

    def find(self, host: str, request: RequestHead, work: Work) -> Entry | None:
        """The entry for a request; None if no rule matches. Raises TooCostlyError."""
        entries = self.entries.find(host)
        return entries.find(request, work) if entries is not None else None


class Port(msgspec.Struct, frozen=True):
    """One port of an address."""

    is_https: bool
    hosts: HostTable[VirtualHost]
    """By the host names of listeners: a request belongs to the most specific one only."""
    all_hosts: tuple[VirtualHost, ...] = ()


class EntryPoints(msgspec.Struct, frozen=True):
    """All ports, and the Services that their rules lead to."""

    ports: Mapping[Place, Port] = {}
    services: Mapping[ServicePort, ServiceEndpoints] = {}
    rules: tuple[EntryRule, ...] = ()
    """Of all routes that are attached to a listener."""


NO_ENTRY_POINTS = EntryPoints()
