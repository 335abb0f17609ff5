"""Computes all statuses of the Gateway API from the objects. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from headgate import api
from headgate.api import gie_v1
from headgate.api.gateways import Gateway, GatewayClass
from headgate.api.http_routes import HttpRoute
from headgate.controllers.gateway_api import addresses, classes, forming, gateways, pools, routes
from headgate.controllers.gateway_api.addresses import AddressSource
from headgate.controllers.gateway_api.gateways import Accepts
from headgate.controllers.gateway_api.listening import Place
from headgate.controllers.gateway_api.objects import Key, Objects
from headgate.controllers.gateway_api.settings import GatewayApiSettings
from headgate.routing import INFERENCE_POOL, gateway_api
from headgate.routing.gateway_api import Translation, Translator


class Assessment(NamedTuple):
    findings: dict[Key, forming.Findings]
    places: Collection[Place]
    """Where valid listeners must be served."""


class Assessor:
    """Keeps what has been compiled of unchanged routes from one assessment to the next."""

    def __init__(self, settings: GatewayApiSettings, service: api.ObjectKey | None = None) -> None:
        """`service`: that of Headgate's gateways."""
        self._name = settings.controller_name
        self._addresses = settings.addresses
        self._service = service
        self.passes = 0
        self._translator = Translator(settings.translation)

    def assess(self, objects: Objects, accepts: Accepts) -> Assessment:
        """`accepts`: whether a place accepts connections."""
        self.passes += 1
        pools_ = {api.ObjectRef(INFERENCE_POOL, *key) for key in objects.pools}
        translation = self._translator.translate(objects.routed, pools_)
        source = self._source(objects.routed)
        given = addresses.assigned(objects.our_gateways(), source)
        hosts = {
            each.metadata.key: addresses.hosts(each, given[each.metadata.key], source)
            for each in objects.our_gateways()
        }
        name = self._name
        findings: dict[Key, forming.Findings] = {
            (GatewayClass, each.metadata.key): classes.of_class(each) for each in objects.our_classes()
        }
        for key, state in translation.gateways.items():
            gateway = objects.routed.gateways[key]
            findings[Gateway, key] = gateways.of_gateway(gateway, state, given[key], hosts[key], accepts)
        for key, of_route in translation.routes.items():
            findings[HttpRoute, key] = routes.of_route(of_route)
        for key, route in objects.routed.routes.items():
            if key not in translation.routes and _has_parents_of(name, route):
                findings[HttpRoute, key] = routes.NO_PARENTS
        parents = _parents(objects, translation)
        services = objects.routed.services
        for key, pool in objects.pools.items():
            if key in parents or _has_parents_of(name, pool):
                findings[gie_v1.InferencePool, key] = pools.of_pool(pool, parents.get(key, {}), services)
        return Assessment(findings, set(_places(translation, hosts)))

    def _source(self, routed: gateway_api.Objects) -> AddressSource:
        source = self._addresses
        if source.shared or source.range is not None or self._service is None:
            return source
        service = routed.services.get(self._service)
        return addresses.of_service(service) if service is not None else AddressSource()


def _parents(objects: Objects, translation: Translation) -> dict[api.ObjectKey, dict[api.ObjectKey, bool]]:
    """For each pool that a route of a Gateway names: the Gateways, and whether such a route is accepted."""
    parents: defaultdict[api.ObjectKey, dict[api.ObjectKey, bool]] = defaultdict(dict)
    for key, state in translation.routes.items():
        for pool in _named_pools(objects.routed.routes[key]):
            for attached in state.attachments:
                before = parents[pool].get(attached.gateway, False)
                parents[pool][attached.gateway] = before or routes.is_accepted(attached, state)
    return parents


def _named_pools(route: HttpRoute) -> Iterator[api.ObjectKey]:
    for rule in route.spec.rules:
        for reference in rule.backend_refs:
            if (reference.group, reference.kind) == (gie_v1.GROUP, "InferencePool"):
                yield api.ObjectKey(reference.namespace or route.metadata.namespace, reference.name)


def _places(translation: Translation, hosts: Mapping[api.ObjectKey, list[str]]) -> Iterator[Place]:
    for key, state in translation.gateways.items():
        for listener in state.listeners:
            if listener.is_served:
                yield from gateways.places(listener, hosts[key])


def _has_parents_of(controller: str, obj: HttpRoute | gie_v1.InferencePool) -> bool:
    """Whether its status has entries of ours, which must go if it has no Gateway of ours any more."""
    said = obj.status.parents if obj.status is not None else []
    return any(each.controller_name == controller for each in said)
