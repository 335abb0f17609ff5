"""Finds gateways whose signals are followed: named ones, and the endpoints of a Service."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from headgate import api, cluster
from headgate.api.discovery_kinds import EndpointSlice

SERVICE: Final = "kubernetes.io/service-name"


class ServiceEndpoints:
    """Follows the endpoints of a Service that serve, also while they drain: their requests count."""

    def __init__(
        self,
        client: cluster.Client,
        service: api.ObjectKey,
        port: int,
        changed: Callable[[Collection[str]], None],
    ) -> None:
        """`changed` is called with the URLs of all endpoints, whenever these are others."""
        self._port = port
        self._changed = changed
        self._slices: dict[api.ObjectKey, EndpointSlice] = {}
        self.informer = cluster.Informer(
            client, EndpointSlice, service.namespace, label_selector=f"{SERVICE}={service.name}"
        )
        self.informer.subscribe(self._put)

    def _put(self, change: cluster.Change[EndpointSlice]) -> None:
        key = change.object.metadata.key
        if change.new is None:
            self._slices.pop(key, None)
        else:
            self._slices[key] = change.new
        self._changed(self.urls())

    def urls(self) -> list[str]:
        found = {
            f"http://[{address}]:{self._port}" if ":" in address else f"http://{address}:{self._port}"
            for each in self._slices.values()
            for endpoint in each.endpoints
            if endpoint.conditions.serving is not False
            for address in endpoint.addresses[:1]
        }
        return sorted(found)
