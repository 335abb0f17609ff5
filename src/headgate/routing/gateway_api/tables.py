"""Puts the rules of all routes in the order in which requests match them, by port and host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headgate import api
from headgate.routing.gateway_api import hostnames
from headgate.routing.gateway_api.attachment import Attachment
from headgate.routing.gateway_api.certificates import Certificate
from headgate.routing.gateway_api.entry_list import Entry, EntryList
from headgate.routing.gateway_api.entry_points import Port, VirtualHost
from headgate.routing.gateway_api.hostnames import HostTable
from headgate.routing.gateway_api.listeners import ListenerState, Place
from headgate.routing.gateway_api.matches import Precedence
from headgate.routing.gateway_api.rules import Rules

_Ordered = tuple[Precedence, Entry]
_Site = tuple[Place, str]
"""A place, and the host name of listeners there."""


class Placed(NamedTuple):
    """Entries of one route at one site, for one host name."""

    site: _Site
    host: str
    ordered: Sequence[_Ordered]


def ports(listeners: Iterable[ListenerState], routes: Iterable[Sequence[Placed]]) -> dict[Place, Port]:
    """The ports of all listeners that are served, with the rules of the routes that are attached to them."""
    entries: defaultdict[_Site, defaultdict[str, list[_Ordered]]] = defaultdict(lambda: defaultdict(list))
    for of_route in routes:
        for placed in of_route:
            entries[placed.site][placed.host] += placed.ordered
    served = [each for each in listeners if each.is_served]
    sites: dict[_Site, list[ListenerState]] = {}
    for each in served:
        for place in each.places:
            sites.setdefault((place, each.hostname), []).append(each)
    hosts: defaultdict[Place, dict[str, VirtualHost]] = defaultdict(dict)
    for (place, hostname), sharing in sites.items():
        table = HostTable(_merged(entries[place, hostname]) if (place, hostname) in entries else {})
        certificates: dict[Certificate, None] = {}
        for listener in sharing:
            certificates.update(dict.fromkeys(listener.certificates))
        hosts[place][hostname] = VirtualHost(hostname, table, tuple(certificates))
    https = {place: each.is_https for each in served for place in each.places}
    return {
        place: Port(https[place], HostTable(found), tuple(found.values()))
        for place, found in sorted(hosts.items())
    }


def placed(route: api.HttpRoute, attachments: Iterable[Attachment], rules: Rules) -> list[Placed]:
    """The entries of one route, at each site and host name."""
    return [Placed(site, host, _ordered(route, rules, own)) for site, host, own in _sites(attachments)]


def _sites(attachments: Iterable[Attachment]) -> set[tuple[_Site, str, str]]:
    """Where a route is attached: each site with a host name there, and the route's own for it. Several
    parentRefs may lead to one site."""
    return {
        ((place, attached.listener.hostname), host, own)
        for each in attachments
        for attached in each.attached
        if attached.listener.is_served
        for place in attached.listener.places
        for host, own in attached.hosts
    }


def _ordered(route: api.HttpRoute, rules: Rules, own: str) -> list[_Ordered]:
    metadata, host = route.metadata, hostnames.specificity(own)
    return [
        (
            Precedence(
                host, match.rank, metadata.creation_timestamp, metadata.namespace, metadata.name, index, i
            ),
            Entry(match, rule),
        )
        for index, rule, matches in rules.made
        for i, match in enumerate(matches)
    ]


def _merged(by_host: dict[str, list[_Ordered]]) -> dict[str, EntryList]:
    """For each host name, the entries of all names that cover it, by precedence."""
    found = {}
    for name in by_host:
        covering = [each for wide in hostnames.covering(name) for each in by_host.get(wide, ())]
        found[name] = EntryList(entry for _, entry in sorted(covering, key=lambda each: each[0]))
    return found
