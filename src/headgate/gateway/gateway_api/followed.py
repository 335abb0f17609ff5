"""Watches the objects of the Gateway API, and those that they lead to.

A server may lack these kinds. Services, EndpointSlices and Namespaces are not watched before there is a
Gateway of Headgate's class.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from headgate import api, cluster, routing
from headgate.api.discovery_kinds import EndpointSlice
from headgate.api.reference_grants import ReferenceGrant
from headgate.routing import gateway_api
from headgate.routing.endpoints import is_ready

log = logging.getLogger(__name__)

ACCESS_PATIENCE_S = 5.0
"""How long a start waits for kinds that it may not read, or that are not there."""
PATIENCE_S = 3.0
"""How long a route waits for the objects that it leads to: without them, its requests would fail."""
LOOK_S = 0.02
"""How often they are looked for."""


class FollowedEntries:
    """Calls `changed` when an object changed that entry points are made from; `translated` makes them."""

    def __init__(
        self,
        client: cluster.Source,
        namespaces: Sequence[str],
        settings: gateway_api.Settings,
        changed: Callable[[], None],
    ) -> None:
        """`namespaces`: those whose objects are followed; all if there are none."""
        self._client = client
        self._scopes = cluster.scopes(namespaces)
        self._changed = changed
        self._settings = settings
        self._objects = gateway_api.Objects()
        self._translator = gateway_api.Translator(settings)
        self._translation = gateway_api.Translation()
        self._tasks: asyncio.TaskGroup | None = None
        self._informers: list[cluster.Informer[Any]] = []
        self._named: list[cluster.NamedObjects[Any]] = []
        self._is_stale = self._has_moved = False
        """Whether objects changed, or only endpoints of Services."""
        self._pools: Mapping[api.ObjectRef, routing.Pool] = {}
        self._waiting_since: float | None = None
        """Since when objects are awaited that are watched, and not known yet."""

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Watch the objects as long as the tasks run; return once those are loaded that may be read."""
        self._tasks = tasks
        objects = self._objects
        self._follow(api.GatewayClass, objects.classes, scopes=(None,))
        self._follow(api.Gateway, objects.gateways)
        self._follow(api.HttpRoute, objects.routes)
        self._follow(ReferenceGrant, objects.grants)
        await asyncio.gather(*(each.wait_known(ACCESS_PATIENCE_S) for each in self._informers))

    def _follow(
        self, kind: type[Any], store: dict[api.ObjectKey, Any], scopes: Sequence[str | None] | None = None
    ) -> None:
        assert self._tasks is not None
        for scope in self._scopes if scopes is None else scopes:
            informer = cluster.Informer(self._client, kind, scope, may_be_absent=True)
            informer.subscribe(functools.partial(self._put, store))
            self._informers.append(informer)
            self._tasks.create_task(informer.run())

    def _follow_backends(self, pools: Mapping[api.ObjectRef, routing.Pool]) -> None:
        """Watch what routes lead to, from the first Gateway on."""
        assert self._tasks is not None
        objects = self._objects
        if not self._named:
            for kind, store in ((api.Service, objects.services), (api.Secret, objects.secrets)):
                named: cluster.NamedObjects[Any] = cluster.NamedObjects(
                    self._client, kind, functools.partial(self._put, store)
                )
                self._named.append(named)
                self._tasks.create_task(named.run())
            self._follow(api.Namespace, objects.namespaces, scopes=(None,))
            for scope in self._scopes:
                slices = cluster.Informer(self._client, EndpointSlice, scope, may_be_absent=True)
                slices.subscribe(self._put_slice)
                self._informers.append(slices)
                self._tasks.create_task(slices.run())
        services, secrets = self._named
        services.follow(objects.services_named(pools.values()))
        secrets.follow(self._secrets())

    def _waits(self) -> bool:
        """Whether objects are awaited, for a bounded time: some may not exist, or may not be read."""
        now = asyncio.get_running_loop().time()
        services, secrets = self._named
        is_known = (
            all(map(services.is_known, self._objects.services_named(self._pools.values())))
            and all(map(secrets.is_known, self._secrets()))
            and all(each.synced.is_set() or each.denied is not None for each in self._informers)
        )
        if is_known:
            self._waiting_since = None
            return False
        if self._waiting_since is None:
            self._waiting_since = now
        return now - self._waiting_since < PATIENCE_S

    def _secrets(self) -> set[api.ObjectKey]:
        return gateway_api.named_secrets(self._objects.ours(self._settings.controller))

    def put_pod(self, change: cluster.Change[api.Pod]) -> None:
        """A Pod changed: Services without EndpointSlices select Pods."""
        key, pod = change.object.metadata.key, change.new
        pods = self._objects.pods[key.namespace]
        if pod is not None and is_ready(pod):
            pods[key] = pod
        else:
            pods.pop(key, None)
        if any(port.namespace == key.namespace for port in self._translation.entry_points.services):
            self._has_moved = True
            self._changed()

    def _put(self, store: dict[api.ObjectKey, Any], change: cluster.Change[Any]) -> None:
        key = change.object.metadata.key
        if change.new is None:
            store.pop(key, None)
        else:
            store[key] = change.new
        if _facts(change.old) != _facts(change.new):
            self._is_stale = True
            self._changed()

    def _put_slice(self, change: cluster.Change[EndpointSlice]) -> None:
        for piece, is_there in ((change.old, False), (change.new, True)):
            service = gateway_api.service_of_slice(piece) if piece is not None else None
            if piece is None or service is None:
                continue
            slices = self._objects.slices[service]
            if is_there:
                slices[piece.metadata.key] = piece
            else:
                slices.pop(piece.metadata.key, None)
                if not slices:
                    del self._objects.slices[service]
            if any(port.service == service for port in self._translation.entry_points.services):
                self._has_moved = True
                self._changed()

    def translated(self, pools: Mapping[api.ObjectRef, routing.Pool]) -> gateway_api.EntryPoints:
        """The entry points of the present objects. `pools`: those that exist."""
        objects, before = self._objects, self._pools
        is_stale = self._is_stale or (pools is not before and _pickers(pools) != _pickers(before))
        has_moved, self._pools = self._has_moved, pools
        self._is_stale = self._has_moved = False
        if is_stale and (self._named or objects.ours(self._settings.controller)):
            self._follow_backends(pools)
            if self._waits():
                self._is_stale = True
                asyncio.get_running_loop().call_later(LOOK_S, self._changed)
            else:
                self._translate(pools)
        elif has_moved:
            known = self._translation.entry_points
            services = gateway_api.endpoints_of(known.services.keys(), objects)
            moved = msgspec.structs.replace(known, services=services)
            self._translation = msgspec.structs.replace(self._translation, entry_points=moved)
        return self._translation.entry_points

    def _translate(self, pools: Mapping[api.ObjectRef, routing.Pool]) -> None:
        before = self._translator.failed
        self._translation = self._translator.translate(self._objects, pools)
        for key, error in self._translator.failed.items():
            if key not in before:
                log.error("HTTPRoute %s cannot be applied, and is not served", key, exc_info=error)

    def denied(self) -> list[cluster.Denied]:
        """The objects that may not be read."""
        found = [informer.denied for informer in self._informers]
        of_named = [denied for named in self._named for denied in named.denied()]
        return [denied for denied in found if denied is not None] + of_named


def _pickers(pools: Mapping[api.ObjectRef, routing.Pool]) -> dict[api.ObjectRef, routing.Picker | None]:
    """What routes depend on, of the pools."""
    return {key: pool.picker for key, pool in pools.items()}


def _facts(obj: Any) -> object:
    """The fields of an object that matter: of a status, only the addresses of a Gateway."""
    if obj is None:
        return None
    metadata = obj.metadata
    facts = (metadata.uid, metadata.creation_timestamp, metadata.deletion_timestamp, metadata.labels)
    if isinstance(obj, api.Secret):
        return (*facts, obj.data)
    if isinstance(obj, api.Gateway):
        return (*facts, obj.spec, obj.status.addresses if obj.status is not None else None)
    return (*facts, getattr(obj, "spec", None))
