"""What is known of each HTTPRoute, kept from one translation to the next.

With thousands of routes, only those are worked on that a change concerns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from headgate import api
from headgate.api.reference_grants import ReferenceGrant
from headgate.routing.gateway_api import backends, rules, tables
from headgate.routing.gateway_api.attachment import Attachment
from headgate.routing.gateway_api.backends import Known
from headgate.routing.gateway_api.faults import Fault
from headgate.routing.gateway_api.listeners import ListenerState
from headgate.routing.gateway_api.rules import Rules

States = Mapping[api.ObjectKey, tuple[ListenerState, ...]]
Labels = Mapping[str, Mapping[str, str]]
Use = api.ObjectKey | api.ObjectRef
"""A Service, or a pool, that a route refers to, whether or not it exists."""


class KnownRoute(NamedTuple):
    """One route, if it has a parent of Headgate's class."""

    route: api.HttpRoute
    attachments: tuple[Attachment, ...]
    rules: Rules
    placed: Sequence[tables.Placed]
    """Its entries at each site."""
    listeners: frozenset[tuple[api.ObjectKey, str]]
    """The Gateways and listeners that it is attached to."""


class Surroundings(NamedTuple):
    """What routes depend on besides themselves."""

    states: States
    labels: Labels
    grants: Sequence[ReferenceGrant]
    services: Mapping[api.ObjectKey, api.Service]
    pools: Container[api.ObjectRef]


class KnownRoutes:
    """`failed`: routes whose translation raised an exception, which is our own error."""

    def __init__(self, attach: Callable[[api.HttpRoute, States, Labels], tuple[Attachment, ...]]) -> None:
        self._attach = attach
        self.found: dict[api.ObjectKey, KnownRoute] = {}
        self.failed: dict[api.ObjectKey, Exception] = {}
        self._compiled: dict[api.ObjectKey, tuple[api.HttpRoute, list[rules.Compiled | Fault]]] = {}
        self._users: defaultdict[Use, set[api.ObjectKey]] = defaultdict(set)
        self._before: Surroundings | None = None

    def update(self, routes: Mapping[api.ObjectKey, api.HttpRoute], now: Surroundings) -> None:
        """Work on the routes that changed, or whose surroundings did."""
        before, self._before = self._before, now
        is_placed_anew = before is None or (before.states, before.labels) != (now.states, now.labels)
        is_resolved_anew = before is None or before.grants != now.grants
        moved: set[api.ObjectKey] = set()
        if before is not None and not is_resolved_anew:
            for use in self._changed_uses(before, now):
                moved |= self._users.get(use, set())
        known, self.failed = Known(now.pools, now.services, now.grants), {}
        found, self.found = self.found, {}
        for key, route in routes.items():
            old = found.get(key)
            if old is not None and old.route is not route:
                old = None
            keeps_rules = old is not None and not is_resolved_anew and key not in moved
            if old is not None and keeps_rules and not is_placed_anew:
                self.found[key] = old
                continue
            try:
                attachments = (
                    old.attachments
                    if old is not None and not is_placed_anew
                    else self._attach(route, now.states, now.labels)
                )
                if attachments:
                    made = (
                        old.rules
                        if old is not None and keeps_rules
                        else rules.resolved(route, self._rules(route), known)
                    )
                    self._keep(key, _known(route, attachments, made))
            except Exception as error:  # one bad object must not affect the others
                self.failed[key] = error
        self._forget(found.keys() - self.found.keys())

    def _keep(self, key: api.ObjectKey, known: KnownRoute) -> None:
        self.found[key] = known
        for use in uses(known.route):
            self._users[use].add(key)

    def _forget(self, gone: Set[api.ObjectKey]) -> None:
        """Drop what is kept of routes that are gone, or lead nowhere."""
        if gone:
            self._compiled = {key: each for key, each in self._compiled.items() if key in self.found}
            for use, users in list(self._users.items()):
                users -= gone
                if not users:
                    del self._users[use]

    def _changed_uses(self, before: Surroundings, now: Surroundings) -> Iterator[Use]:
        """The Services and pools that changed, appeared or are gone, and users of any."""
        for use in list(self._users):
            if isinstance(use, api.ObjectRef):
                if (use in before.pools) != (use in now.pools):
                    yield use
            elif before.services.get(use) != now.services.get(use):
                yield use

    def _rules(self, route: api.HttpRoute) -> list[rules.Compiled | Fault]:
        key = route.metadata.key
        known = self._compiled.get(key)
        if known is None or known[0] is not route:
            known = self._compiled[key] = (route, rules.compiled(route))
        return known[1]


def _known(route: api.HttpRoute, attachments: tuple[Attachment, ...], made: Rules) -> KnownRoute:
    listeners = frozenset(
        (each.gateway, attached.listener.spec.name) for each in attachments for attached in each.attached
    )
    return KnownRoute(route, attachments, made, tables.placed(route, attachments, made), listeners)


def uses(route: api.HttpRoute) -> Iterator[Use]:
    """The Services and pools that a route refers to."""
    for rule in route.spec.rules:
        mirrored = [
            each.request_mirror.backend_ref for each in rule.filters if each.request_mirror is not None
        ]
        for reference in (*rule.backend_refs, *mirrored):
            found = backends.used(route, reference)
            if found is not None:
                yield found
