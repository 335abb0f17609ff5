"""Translates the objects of the Gateway API into entry points, and finds what their statuses say.

Gateways and controllers use the same translation, so a status says what requests experience.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from headgate import api
from headgate.api import gateways
from headgate.api.discovery_kinds import EndpointSlice
from headgate.api.reference_grants import ReferenceGrant
from headgate.routing.gateway_api import attachment, backends, listeners, services, tables
from headgate.routing.gateway_api.attachment import Attachment
from headgate.routing.gateway_api.backends import ServicePort
from headgate.routing.gateway_api.entry_points import NO_ENTRY_POINTS, EntryPoints
from headgate.routing.gateway_api.known_routes import KnownRoutes, Surroundings
from headgate.routing.gateway_api.listeners import ListenerState, Place
from headgate.routing.gateway_api.rules import Rules
from headgate.routing.gateway_api.services import ServiceEndpoints
from headgate.routing.snapshot import Pool


class GatewayState(msgspec.Struct, frozen=True):
    """What is known of a Gateway of Headgate's class."""

    listeners: tuple[ListenerState, ...]
    attached: Mapping[str, int]
    """How many routes are attached to each listener, by its name."""


class RouteState(msgspec.Struct, frozen=True):
    """What is known of an HTTPRoute with a parent of Headgate's class."""

    attachments: tuple[Attachment, ...]
    """One for each parentRef to a Gateway of Headgate's class."""
    rules: Rules

    @property
    def is_accepted(self) -> bool:
        """Whether any of its rules is supported."""
        return bool(self.rules.made)


class Translation(msgspec.Struct, frozen=True):
    """The entry points, and the states of the objects that they are made from."""

    entry_points: EntryPoints = NO_ENTRY_POINTS
    gateways: Mapping[api.ObjectKey, GatewayState] = {}
    routes: Mapping[api.ObjectKey, RouteState] = {}


Pools: TypeAlias = Mapping[api.ObjectRef, Pool] | Container[api.ObjectRef]
"""The pools of a snapshot; or only which there are, where nobody asks their pickers."""


def picker_of(pool: Pool) -> list[ServicePort]:
    """The Service that picks the endpoints of a pool, if there is one."""
    picker = pool.picker
    if picker is None or picker.fault:
        return []
    return [ServicePort(pool.key.namespace, picker.name, picker.port)]


class Objects:
    """The objects that entry points are made from, by their names. Whoever changes one calls `translate`
    again."""

    def __init__(self) -> None:
        self.classes: dict[api.ObjectKey, api.GatewayClass] = {}
        self.gateways: dict[api.ObjectKey, api.Gateway] = {}
        self.routes: dict[api.ObjectKey, api.HttpRoute] = {}
        self.grants: dict[api.ObjectKey, ReferenceGrant] = {}
        self.namespaces: dict[api.ObjectKey, api.Namespace] = {}
        self.services: dict[api.ObjectKey, api.Service] = {}
        self.secrets: dict[api.ObjectKey, api.Secret] = {}
        self.slices: defaultdict[api.ObjectKey, dict[api.ObjectKey, EndpointSlice]] = defaultdict(dict)
        """By the Service that they belong to."""
        self.pods: defaultdict[str, dict[api.ObjectKey, api.Pod]] = defaultdict(dict)
        """Ready Pods by namespace."""

    def ours(self, controller: str) -> list[api.Gateway]:
        """The Gateways whose class this controller implements."""
        classes = {key.name for key, each in self.classes.items() if each.spec.controller_name == controller}
        return [each for each in self.gateways.values() if each.spec.gateway_class_name in classes]

    def services_named(self, pools: Iterable[Pool] = ()) -> set[api.ObjectKey]:
        """The Services that routes refer to, and the pickers of these pools, whether or not they exist."""
        return {port.service for pool in pools for port in picker_of(pool)} | {
            key
            for route in self.routes.values()
            for rule in route.spec.rules
            for reference in (
                *rule.backend_refs,
                *(
                    each.request_mirror.backend_ref
                    for each in rule.filters
                    if each.request_mirror is not None
                ),
            )
            if (key := backends.service_of(route, reference)) is not None
        }


class Settings(NamedTuple):
    """What a translation depends on besides objects."""

    controller: str = gateways.CONTROLLER
    taken: Collection[Place] = ()
    """Where Headgate itself listens."""
    are_assigned: bool = False
    """Whether Gateways that name no address are served at those of their status."""


class Translator:
    """Keeps what it knows of unchanged routes from one translation to the next."""

    def __init__(self, settings: Settings = Settings()) -> None:  # noqa: B008 - it is immutable
        self.settings = settings
        self._known = KnownRoutes(_attachments)

    @property
    def failed(self) -> Mapping[api.ObjectKey, Exception]:
        """Routes whose last translation raised an exception, which is our own error: they are left out."""
        return self._known.failed

    def translate(self, objects: Objects, pools: Pools) -> Translation:
        """Translate all objects. `pools`: those that exist."""
        settings, known = self.settings, self._known
        grants = tuple(objects.grants.values())
        states = listeners.states(
            objects.ours(settings.controller),
            objects.secrets,
            grants,
            taken=settings.taken,
            are_assigned=settings.are_assigned,
        )
        labels = {key.name: each.metadata.labels for key, each in objects.namespaces.items()}
        exist = frozenset(pools) if isinstance(pools, Collection) else pools
        known.update(objects.routes, Surroundings(states, labels, grants, dict(objects.services), exist))
        routes = known.found.values()
        ports = tables.ports(
            [each for of_gateway in states.values() for each in of_gateway],
            [each.placed for each in routes],
        )
        named = {port for each in routes for port in _services(each.rules, pools)}
        counts = Counter(each for state in routes if state.rules.made for each in state.listeners)
        return Translation(
            EntryPoints(
                ports,
                endpoints_of(named, objects),
                tuple(rule for each in routes for _, rule, _ in each.rules.made),
            ),
            {
                key: GatewayState(each, {of.spec.name: counts[key, of.spec.name] for of in each})
                for key, each in states.items()
            },
            {key: RouteState(each.attachments, each.rules) for key, each in known.found.items()},
        )


def endpoints_of(named: Collection[ServicePort], objects: Objects) -> dict[ServicePort, ServiceEndpoints]:
    """The present endpoints of these ports; those of Services that do not exist are left out."""
    found = {}
    for port in sorted(named):
        service = objects.services.get(port.service)
        if service is not None:
            slices = objects.slices.get(port.service, {}).values()
            pods = [] if slices else _selected(service, objects)
            found[port] = services.endpoints_of(port, service, slices, pods)
    return found


def _selected(service: api.Service, objects: Objects) -> list[api.Pod]:
    wanted = service.spec.get("selector")
    if not wanted or not isinstance(wanted, dict):
        return []
    pods = objects.pods.get(service.metadata.namespace, {})
    return [pod for pod in pods.values() if wanted.items() <= pod.metadata.labels.items()]


def _attachments(
    route: api.HttpRoute,
    states: Mapping[api.ObjectKey, tuple[ListenerState, ...]],
    namespaces: Mapping[str, Mapping[str, str]],
) -> tuple[Attachment, ...]:
    found = []
    for reference in route.spec.parent_refs:
        gateway = attachment.gateway_of(route, reference)
        if gateway is not None and gateway in states:
            found.append(attachment.attach(route, reference, gateway, states[gateway], namespaces))
    return tuple(found)


def _services(found: Rules, pools: Pools) -> Iterator[ServicePort]:
    """The Services that rules lead to, and those that pick the endpoints of their pools."""
    for _, rule, _ in found.made:
        for backend in (*rule.backends, *rule.mirrored):
            if isinstance(backend, ServicePort):
                yield backend
            elif isinstance(backend, api.ObjectRef) and isinstance(pools, Mapping):
                yield from picker_of(pools[backend])
