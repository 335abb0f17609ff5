"""Objects of the Gateway API in few words, and what is found out about them."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from headgate import api
from headgate.api import gie_v1
from headgate.api.gateways import Gateway, GatewayClass
from headgate.api.http_routes import HttpRoute
from headgate.api.reference_grants import ReferenceGrant
from headgate.controllers.gateway_api import GatewayApiSettings, forming, parsed
from headgate.controllers.gateway_api.assessment import Assessment, Assessor
from headgate.controllers.gateway_api.objects import Objects

NOW = "2026-01-31T08:15:00Z"
CONTROLLER = "headgate.dev/gateway-controller"
KINDS = {
    kind.resource.kind: kind
    for kind in (
        GatewayClass,
        Gateway,
        HttpRoute,
        gie_v1.InferencePool,
        ReferenceGrant,
        api.Service,
        api.Namespace,
        api.Secret,
    )
}


def made(kind: str, name: str, spec: dict[str, Any] | None = None, **metadata: Any) -> Any:
    """An object of a kind; without a namespace, it is in `default`."""
    of = KINDS[kind]
    namespace = {"namespace": "default"} if of.resource.namespaced else {}
    meta = {**namespace, "uid": f"{kind}-{name}", "generation": 1, **metadata}
    raw = {"metadata": {"name": name, **meta}} | ({"spec": spec} if spec is not None else {})
    return msgspec.json.decode(json.dumps(raw), type=of)


def gateway_class(name: str = "headgate", controller: str = CONTROLLER) -> GatewayClass:
    return made("GatewayClass", name, {"controllerName": controller})


def gateway(
    name: str = "front", *listeners: dict[str, Any], of: str = "headgate", **metadata: Any
) -> Gateway:
    """Without listeners, it has one for HTTP on port 80, which takes routes of all namespaces."""
    every = {"namespaces": {"from": "All"}}
    one = {"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": every}
    spec = {"gatewayClassName": of, "listeners": list(listeners) or [one]}
    return made("Gateway", name, spec, **metadata)


def route(
    name: str = "route", *backends: dict[str, Any], to: tuple[str, ...] = ("front",), **more: Any
) -> HttpRoute:
    """A route to these backends, with Gateways as parents. `more`: fields of the spec, or its namespace."""
    namespace = {"namespace": more.pop("namespace")} if "namespace" in more else {}
    parents = [{"name": each, "namespace": "default"} for each in to]
    spec = {"parentRefs": parents, "rules": [{"backendRefs": list(backends)}], **more}
    return made("HTTPRoute", name, spec, **namespace)


def to_pool(name: str, **more: Any) -> dict[str, Any]:
    return {"group": gie_v1.GROUP, "kind": "InferencePool", "name": name, **more}


def pool(name: str = "pool", picker: str | None = None, **metadata: Any) -> gie_v1.InferencePool:
    spec: dict[str, Any] = {"selector": {"matchLabels": {"app": name}}, "targetPorts": [{"number": 8000}]}
    if picker is not None:
        spec["endpointPickerRef"] = {"name": picker, "port": {"number": 9002}}
    return made("InferencePool", name, spec, **metadata)


def service(name: str, port: int = 8080, **more: Any) -> api.Service:
    metadata = {"namespace": more.pop("namespace")} if "namespace" in more else {}
    return made("Service", name, {"ports": [{"port": port}], **more}, **metadata)


def assess(
    *objects: Any,
    accepts: Callable[[Any], bool | None] = lambda _: True,
    addresses: tuple[str, ...] = ("192.0.2.1",),
) -> Assessment:
    settings = GatewayApiSettings(addresses=parsed(addresses))
    known = Objects(settings.controller_name)
    for obj in objects:
        known.put(type(obj), obj.metadata.key, obj)
    return Assessor(settings).assess(known, accepts)


def status_of(obj: Any, *others: Any, **more: Any) -> Any:
    """The status of an object with these others around; None if it is none of ours."""
    found = assess(obj, *others, **more).findings.get((type(obj), obj.metadata.key))
    return forming.formed(obj, found, CONTROLLER, NOW) if found is not None else None


def said(conditions: list[api.Condition]) -> dict[str, tuple[str, str]]:
    """Status and reason by type."""
    return {each.type: (each.status, each.reason) for each in conditions}


@pytest.fixture(scope="session")
def kit() -> SimpleNamespace:
    """The helpers of this folder."""
    return SimpleNamespace(
        controller=CONTROLLER,
        now=NOW,
        made=made,
        gateway_class=gateway_class,
        gateway=gateway,
        route=route,
        to_pool=to_pool,
        pool=pool,
        service=service,
        assess=assess,
        status_of=status_of,
        said=said,
    )
