"""Entry points: ports and host names at which requests of the Gateway API come in, with their rules.

They stand beside the Snapshot of models and pools: a rule leads to one of its pools by name, or to a Service.
Both are immutable, and a request keeps the entry points that it started with.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headgate import api
from headgate.routing.gateway_api.backends import Backend, ServicePort
from headgate.routing.gateway_api.certificates import Certificate
from headgate.routing.gateway_api.filters import NO_FILTERS, Filters
from headgate.routing.gateway_api.hostnames import HostTable
from headgate.routing.gateway_api.listeners import Place
from headgate.routing.gateway_api.matches import Match, RequestHead
from headgate.routing.gateway_api.services import ServiceEndpoints
from headgate.routing.patterns import Work
from headgate.routing.snapshot import Route, Rule


class EntryRule(msgspec.Struct, frozen=True):
    """One rule of an HTTPRoute."""

    route: api.ObjectRef
    name: str
    """The route and the rule in metrics and logs."""
    split: Rule
    """Its backends by weight: `model` of a target is the index of its backend."""
    as_route: Route
    """The route of requests to one of its pools that no route for their model leads there."""
    backends: tuple[Backend, ...]
    backend_filters: tuple[Filters, ...]
    """The filters of each backend."""
    filters: Filters = NO_FILTERS
    mirrored: tuple[Backend, ...] = ()
    """The backends of its mirrors."""
    request_timeout_s: float | None = None
    """From the request to the end of its response; None is unlimited."""
    backend_timeout_s: float | None = None
    """The same for one attempt."""


class Entry(msgspec.Struct, frozen=True):
    """One match of a rule."""

    match: Match
    rule: EntryRule


class VirtualHost(msgspec.Struct, frozen=True):
    """The rules of all listeners with one place and host name."""

    hostname: str
    """As the listener has it; empty for any."""
    entries: HostTable[tuple[Entry, ...]]
    """By the host names of routes: all entries that a request for the host may match, by precedence."""
    certificates: tuple[Certificate, ...] = ()

    def find(self, host: str, request: RequestHead, work: Work) -> Entry | None:
        """The entry for a request; None if no rule matches. Raises TooCostlyError."""
        for entry in self.entries.find(host) or ():
            if entry.match.fits(request, work):
                return entry
        return None


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
