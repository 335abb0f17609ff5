"""The objects that statuses of the Gateway API depend on, as last reported by the API server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate import api
from headgate.api import gie_v1
from headgate.api.gateways import Gateway, GatewayClass
from headgate.api.http_routes import HttpRoute
from headgate.api.reference_grants import ReferenceGrant
from headgate.routing import gateway_api

Key = tuple[type[Any], api.ObjectKey]

STATED: tuple[type[Any], ...] = (GatewayClass, Gateway, HttpRoute, gie_v1.InferencePool)
"""Kinds with a status that is written."""
READ: tuple[type[Any], ...] = (ReferenceGrant, api.Service, api.Namespace)
"""Kinds that are only read, besides Secrets, which are followed by name."""
FOLLOWED = (*STATED, *READ)
OF_CLUSTER: tuple[type[Any], ...] = (GatewayClass, api.Namespace)
"""Kinds without a namespace."""


class Objects:
    """Accepts changes in any order. Of kinds with a status, changes of only the status are not news."""

    def __init__(self, controller_name: str) -> None:
        self._controller_name = controller_name
        self.routed = gateway_api.Objects()
        """Those that routing depends on."""
        self.pools: dict[api.ObjectKey, gie_v1.InferencePool] = {}
        self._kinds: dict[type[Any], dict[api.ObjectKey, Any]] = {
            GatewayClass: self.routed.classes,
            Gateway: self.routed.gateways,
            HttpRoute: self.routed.routes,
            gie_v1.InferencePool: self.pools,
            ReferenceGrant: self.routed.grants,
            api.Service: self.routed.services,
            api.Namespace: self.routed.namespaces,
            api.Secret: self.routed.secrets,
        }

    def get(self, kind: type[Any], key: api.ObjectKey) -> Any:
        return self._kinds[kind].get(key)

    def put(self, kind: type[Any], key: api.ObjectKey, obj: Any) -> bool:
        """Takes the new version of an object, None if it is deleted. Returns whether that may change a
        status."""
        known = self._kinds[kind]
        old = known.get(key)
        if obj is None:
            known.pop(key, None)
        else:
            known[key] = obj
        return old is None or obj is None or _decisive(old) != _decisive(obj)

    def our_classes(self) -> Sequence[GatewayClass]:
        """Those that Headgate implements."""
        found = self.routed.classes.values()
        return [each for each in found if each.spec.controller_name == self._controller_name]

    def our_gateways(self) -> Sequence[Gateway]:
        """Those of our classes."""
        return self.routed.ours(self._controller_name)

    def secrets(self) -> set[api.ObjectKey]:
        """The Secrets that are known."""
        return set(self.routed.secrets)

    def statistics(self) -> dict[str, int]:
        return {kind.resource.plural: len(known) for kind, known in self._kinds.items()}


def _decisive(obj: Any) -> tuple[object, ...]:
    """All but the status, of which only addresses matter."""
    metadata = obj.metadata
    said = (
        metadata.uid,
        metadata.generation,
        metadata.labels,
        metadata.annotations,
        metadata.deletion_timestamp,
    )
    if isinstance(obj, api.Secret):
        return (*said, obj.data)
    if isinstance(obj, api.Service):
        return (*said, obj.spec, obj.status)
    if isinstance(obj, Gateway):
        return (*said, obj.spec, obj.status.addresses if obj.status is not None else ())
    return (*said, getattr(obj, "spec", None))
