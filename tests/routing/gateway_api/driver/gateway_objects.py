"""Objects of the Gateway API, as they come from an API server."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import msgspec

from headgate import api
from headgate.api.discovery_kinds import EndpointSlice
from headgate.api.reference_grants import ReferenceGrant
from headgate.routing import gateway_api, patterns

CLASS = "headgate"
HTTP = {"name": "http", "port": 80, "protocol": "HTTP"}


def decoded(kind: type[Any], name: str, namespace: str = "shop", **rest: Any) -> Any:
    metadata = {"name": name, "namespace": namespace} | rest.pop("metadata", {})
    return msgspec.convert({"metadata": metadata, **rest}, kind)


def gateway(
    name: str = "front", *listeners: dict[str, Any], namespace: str = "shop", **metadata: Any
) -> api.Gateway:
    spec = {"gatewayClassName": CLASS, "listeners": list(listeners) or [HTTP]}
    return decoded(api.Gateway, name, namespace, spec=spec, metadata=metadata)


def route(
    name: str = "r",
    *rules: dict[str, Any],
    parents: list[dict[str, Any]] | None = None,
    hosts: list[str] | None = None,
    namespace: str = "shop",
    **metadata: Any,
) -> api.HttpRoute:
    spec = {"parentRefs": parents or [{"name": "front"}], "hostnames": hosts or [], "rules": list(rules)}
    return decoded(api.HttpRoute, name, namespace, spec=spec, metadata=metadata)


def service(name: str = "web", namespace: str = "shop", *, port: int = 80, **spec: Any) -> api.Service:
    return decoded(api.Service, name, namespace, spec={"ports": [{"port": port}], **spec})


def world(*objects: Any, namespaces: dict[str, dict[str, str]] | None = None) -> gateway_api.Objects:
    """All objects, with a GatewayClass of Headgate."""
    made = gateway_api.Objects()
    spec = {"controllerName": "headgate.dev/gateway-controller"}
    made.classes[api.ObjectKey("", CLASS)] = decoded(api.GatewayClass, CLASS, "", spec=spec)
    stores: dict[type[Any], dict[api.ObjectKey, Any]] = {
        api.Gateway: made.gateways,
        api.HttpRoute: made.routes,
        api.Service: made.services,
        api.Secret: made.secrets,
        ReferenceGrant: made.grants,
        api.GatewayClass: made.classes,
    }
    for each in objects:
        key = each.metadata.key
        if isinstance(each, EndpointSlice):
            owner = gateway_api.service_of_slice(each)
            assert owner is not None
            made.slices[owner][key] = each
        elif isinstance(each, api.Pod):
            made.pods[key.namespace][key] = each
        else:
            stores[type(each)][key] = each
    for name, labels in (namespaces or {}).items():
        metadata = {"labels": labels}
        made.namespaces[api.ObjectKey("", name)] = decoded(api.Namespace, name, "", metadata=metadata)
    return made


def translate(*objects: Any, pools: Any = (), **rest: Any) -> gateway_api.Translation:
    return gateway_api.Translator().translate(world(*objects, **rest), pools)


class Head:
    """The head of a request."""

    def __init__(self, target: str = "/", method: str = "GET", **headers: str) -> None:
        self.path, _, self.query = target.partition("?")
        self.method = method.encode()
        self._headers = {name.replace("_", "-").encode(): value for name, value in headers.items()}

    def values(self) -> dict[bytes, str]:
        return self._headers

    def parameters(self) -> dict[str, str]:
        return dict(reversed(parse_qsl(self.query)))


def leads_to(
    translation: gateway_api.Translation, host: str, head: Head, place: tuple[str, int] = ("", 80)
) -> str | None:
    """The name of the rule that takes a request; None if there is none."""
    virtual = translation.entry_points.ports[gateway_api.Place(*place)].hosts.find(host)
    found = virtual.find(host, head, patterns.Work()) if virtual is not None else None
    return found.rule.name if found is not None else None
