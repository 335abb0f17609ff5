"""A reference leads to a pool or a Service that exists and may be used; all others say why they do not."""

from __future__ import annotations

import pytest
from gateway_objects import decoded, gateway, route, service, translate, world

from headgate import api
from headgate.api.discovery_kinds import EndpointSlice
from headgate.api.reference_grants import ReferenceGrant
from headgate.routing import gateway_api
from headgate.routing.gateway_api import InvalidBackend, ServicePort

POOL = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "llama"}
POOL_REF = api.ObjectRef("InferencePool", "shop", "llama")


def state(backend: dict[str, object], *objects: object, **rest: object):
    mine = route("r", {"backendRefs": [backend]})
    return translate(gateway(), mine, *objects, **rest).routes[api.ObjectKey("shop", "r")]


def backend(reference: dict[str, object], *objects: object, **rest: object):
    [(_, rule, _)] = state(reference, *objects, **rest).rules.made
    [found] = rule.backends
    return found


@pytest.mark.parametrize("port", [{}, {"port": 8000}, {"port": 1}])
def test_the_port_of_a_pool_is_ignored(port: dict[str, int]) -> None:
    """C5: unset, equal and different ports all lead to the pool."""
    assert backend({**POOL, **port}, pools={POOL_REF}) == POOL_REF


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ({"name": "web", "port": 80}, "BackendNotFound"),
        (POOL, "BackendNotFound"),
        ({"name": "web", "kind": "ConfigMap"}, "InvalidKind"),
        ({"name": "web", "kind": "InferencePool"}, "InvalidKind"),
        ({"name": "other", "namespace": "bank", "port": 80}, "RefNotPermitted"),
        ({**POOL, "namespace": "bank"}, "RefNotPermitted"),
        ({"name": "there", "port": 81}, "BackendNotFound"),
        ({"name": "there"}, "BackendNotFound"),
        ({"name": "outside", "port": 80}, "BackendNotFound"),
        ({"name": "odd", "port": 80}, "UnsupportedProtocol"),
    ],
)
def test_what_cannot_be_reached_is_told(reference: dict[str, object], reason: str) -> None:
    """C7, and the same for Services."""
    odd = decoded(api.Service, "odd", spec={"ports": [{"port": 80, "appProtocol": "kafka"}]})
    services = [service("there"), service("outside", type="ExternalName"), service("other", "bank"), odd]
    found = state(reference, *services, pools={api.ObjectRef("InferencePool", "bank", "llama")})
    [fault] = found.rules.unresolved
    assert (fault.condition, fault.reason) == ("ResolvedRefs", reason)
    assert found.is_accepted
    [(_, rule, _)] = found.rules.made
    assert isinstance(rule.backends[0], InvalidBackend)


def test_a_grant_lets_a_route_use_another_namespace() -> None:
    ends = {
        "from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "shop"}],
        "to": [{"group": "", "kind": "Service", "name": "web"}],
    }
    there = [service("web", "bank"), decoded(ReferenceGrant, "g", "bank", spec=ends)]
    found = backend({"name": "web", "namespace": "bank", "port": 80}, *there)
    assert found == ServicePort("bank", "web", 80)


# -- endpoints of Services


def slice_(
    *addresses: tuple[str, bool | None], port: int = 8080, name: str = "", **labels: str
) -> EndpointSlice:
    endpoints = [{"addresses": [address], "conditions": {"ready": ready}} for address, ready in addresses]
    metadata = {"labels": {"kubernetes.io/service-name": "web"}}
    ports = [{"name": name, "port": port}]
    rest = {"addressType": "IPv4", "endpoints": endpoints, "ports": ports}
    return decoded(EndpointSlice, labels.get("name", "web-1"), metadata=metadata, **rest)


def addresses(*objects: object) -> list[str]:
    mine = route("r", {"backendRefs": [{"name": "web", "port": 80}]})
    services = translate(gateway(), mine, *objects).entry_points.services
    return [each.address for each in services[ServicePort("shop", "web", 80)].endpoints]


def test_ready_endpoints_of_all_slices_are_used() -> None:
    one = slice_(("10.0.0.2", True), ("10.0.0.1", None), ("10.0.0.3", False))
    assert addresses(service(), one) == ["10.0.0.1:8080", "10.0.0.2:8080"]


def test_only_the_named_port_of_a_slice_is_used() -> None:
    named = decoded(api.Service, "web", spec={"ports": [{"name": "http", "port": 80}]})
    assert addresses(named, slice_(("10.0.0.1", True), name="grpc")) == []
    assert addresses(named, slice_(("10.0.0.1", True), name="http")) == ["10.0.0.1:8080"]


def test_without_slices_the_pods_of_the_selector_are_used() -> None:
    def pod(name: str, ip: str, **labels: str) -> api.Pod:
        ports = [{"name": "http", "containerPort": 9000}]
        spec = {"containers": [{"name": "c", "image": "i", "ports": ports}]}
        return decoded(api.Pod, name, spec=spec, metadata={"labels": labels}, status={"podIP": ip})

    ports = [{"port": 80, "targetPort": "http"}]
    selecting = decoded(api.Service, "web", spec={"ports": ports, "selector": {"app": "web"}})
    assert addresses(selecting, pod("a", "127.0.0.7", app="web"), pod("b", "127.0.0.8")) == ["127.0.0.7:9000"]


def test_http2_is_spoken_where_the_service_says_so() -> None:
    spoken = decoded(api.Service, "web", spec={"ports": [{"port": 80, "appProtocol": "kubernetes.io/h2c"}]})
    mine = route("r", {"backendRefs": [{"name": "web", "port": 80}]})
    [found] = translate(gateway(), mine, spoken).entry_points.services.values()
    assert found.http2


def test_unchanged_routes_are_compiled_once() -> None:
    objects, translator = world(gateway(), route()), gateway_api.Translator()
    first = translator.translate(objects, ())
    second = translator.translate(objects, ())
    rules = [each.routes[api.ObjectKey("shop", "r")].rules.made[0][2] for each in (first, second)]
    assert rules[0] is rules[1]
