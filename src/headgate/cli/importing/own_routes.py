"""HTTPRoutes that Headgate's gateway serves as they are, because their Gateways are of its own class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headgate.api import gateways

GROUP = "gateway.networking.k8s.io"


class OwnRoutes:
    """Knows the Gateways of Headgate among the given objects. The shape of all objects is untrusted."""

    def __init__(self, objects: Iterable[Mapping[str, Any]], namespace: str) -> None:
        """`namespace` is that of objects that name none."""
        self._namespace = namespace
        every = [each for each in objects if str(each.get("apiVersion")).startswith(f"{GROUP}/")]
        classes = {
            name
            for each in every
            if each.get("kind") == "GatewayClass"
            and _text(each, "spec", "controllerName") == gateways.CONTROLLER
            and (name := _text(each, "metadata", "name"))
        }
        self._gateways = {
            (self._namespace_of(each), _text(each, "metadata", "name"))
            for each in every
            if each.get("kind") == "Gateway" and _text(each, "spec", "gatewayClassName") in classes
        }

    def has(self, route: Mapping[str, Any]) -> bool:
        """Whether an HTTPRoute has a Gateway of Headgate among its parents, or a status that says so."""
        named = any(
            (_text(parent, "namespace") or self._namespace_of(route), _text(parent, "name")) in self._gateways
            for parent in _items(route, "spec", "parentRefs")
            if (_text(parent, "kind") or "Gateway") == "Gateway"
        )
        return named or any(
            _text(parent, "controllerName") == gateways.CONTROLLER
            for parent in _items(route, "status", "parents")
        )

    def pools(self, route: Mapping[str, Any]) -> Iterator[str]:
        """The InferencePools among the backends of a route, each as kind, namespace and name."""
        for rule in _items(route, "spec", "rules"):
            for backend in _items(rule, "backendRefs"):
                if _text(backend, "kind") == "InferencePool":
                    where = _text(backend, "namespace") or self._namespace_of(route)
                    yield f"InferencePool {where}/{_text(backend, 'name')}"

    def _namespace_of(self, content: Mapping[str, Any]) -> str:
        return _text(content, "metadata", "namespace") or self._namespace


def _at(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _text(value: Any, *names: str) -> str:
    found = _at(value, *names)
    return found if isinstance(found, str) else ""


def _items(value: Any, *names: str) -> list[Any]:
    found = _at(value, *names)
    return found if isinstance(found, list) else []
