"""The other objects that rules look up: those of Headgate's kinds from memory, others by requests.

Rules look up objects synchronously. So a first run finds out which objects are needed, then they are read,
and a second run has them. Rules name few objects, and each lookup has a limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from headgate import api, cluster
from headgate.api import admission, apps, gie_v1, gie_v1alpha1, horizontal, reference_grants
from headgate.kubeschema import structural

__all__ = ["Followed", "Lookup"]

Object = dict[str, Any]
_Key = tuple[str, str, api.ObjectKey]

MAX_KINDS = 8
MAX_REQUESTS = 64
"""Objects read for one review; of others, nothing is said."""

_FOLLOWED: tuple[type[cluster.KubeObject], ...] = (
    api.ModelRoute,
    api.ModelServer,
    api.Model,
    api.AutoscalingPolicy,
    api.AutoscalingPolicyBinding,
    api.InferenceModel,
    api.VariantAutoscaling,
    gie_v1alpha1.InferencePool,
    gie_v1.InferencePool,
    horizontal.HorizontalPodAutoscaler,
    reference_grants.ReferenceGrant,
)
_READ = {
    ("", "Service"): api.Service.resource,
    ("", "ConfigMap"): api.ConfigMap.resource,
    ("apps", "Deployment"): api.Deployment.resource,
    ("apps", "StatefulSet"): apps.StatefulSet.resource,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): api.Resource(
        "leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets"
    ),
}
"""Kinds that are read when an object refers to one."""


class Followed:
    """Local copies of all objects of Headgate's kinds, with an index of them."""

    def __init__(self, client: cluster.Client, namespaces: Sequence[str]) -> None:
        schemas = {
            (each["spec"]["group"], each["spec"]["names"]["kind"]): version["schema"]["openAPIV3Schema"]
            for each in api.custom_definitions()
            for version in each["spec"]["versions"]
        }
        self._namespaces = frozenset(namespaces)
        self._objects: dict[_Key, Object] = {}
        self._index = admission.Index()
        self._informers = []
        for kind, scope in itertools.product(_FOLLOWED, cluster.scopes(namespaces)):
            informer = cluster.Informer(client, kind, scope, may_be_absent=True)
            schema = schemas.get((kind.resource.group, kind.resource.kind), {})
            informer.subscribe(self._handler(kind.resource, schema))
            self._informers.append(informer)

    async def run(self) -> None:
        """Follow the API server until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run())

    async def loaded(self) -> None:
        for informer in self._informers:
            await informer.wait_synced()

    def may_read(self, namespace: str) -> bool:
        return not self._namespaces or namespace in self._namespaces

    def get(self, key: _Key) -> Object | None:
        return self._objects.get(key)

    def filed(self, entry: admission.IndexKey) -> Sequence[admission.Filed]:
        return self._index.find(entry)

    def statistics(self) -> dict[str, int]:
        return {"objects": len(self._objects), **self._index.statistics()}

    def _handler(
        self, resource: api.Resource, schema: structural.Schema
    ) -> Callable[[cluster.Change[Any]], None]:
        def handle(change: cluster.Change[Any]) -> None:
            meta = change.object.metadata
            key = (resource.group, resource.kind, meta.key)
            if change.new is None:
                self._objects.pop(key, None)
                self._index.remove(*key)
                return
            # A struct leaves out fields with their default, which the rules see in an object of the server.
            obj: Object = msgspec.to_builtins(change.new)
            obj |= {"apiVersion": resource.api_version, "kind": resource.kind}
            structural.default(schema, obj)
            self._objects[key] = obj
            self._index.put(obj)

        return handle


class _Version(msgspec.Struct, frozen=True):
    version: str


class _Group(msgspec.Struct, frozen=True):
    versions: list[_Version]


FOLLOWED = frozenset((kind.resource.group, kind.resource.kind) for kind in _FOLLOWED)


class Lookup:
    """An `admission.View` for one review; notes which objects it lacks."""

    among = ""
    """It has all objects."""

    def __init__(self, followed: Followed) -> None:
        self._followed = followed
        self._read: dict[_Key, Object | None] = {}
        self._kinds: dict[tuple[str, str], bool] = {}
        self._lacking: dict[_Key, None] = {}
        self._lacking_kinds: dict[tuple[str, str], None] = {}
        self.unknown: set[_Key] = set()
        """Objects that could not be read."""

    @property
    def is_lacking(self) -> bool:
        """Whether a rule has asked for what must be read first."""
        return bool(self._lacking or self._lacking_kinds)

    def get(self, group: str, kind: str, key: api.ObjectKey) -> Object | None:
        if (group, kind) in FOLLOWED:
            return self._followed.get((group, kind, key))
        if (group, kind, key) not in self._read:
            self._lacking[group, kind, key] = None
        return self._read.get((group, kind, key))

    def serves(self, group: str, kind: str) -> bool:
        if (group, kind) in FOLLOWED or (group, kind) in _READ:
            return True
        if (group, kind) not in self._kinds:
            self._lacking_kinds[group, kind] = None
        return self._kinds.get((group, kind), True)

    def filed(self, entry: admission.IndexKey) -> Sequence[admission.Filed]:
        return self._followed.filed(entry)

    async def read(self, client: cluster.Client) -> None:
        """Read what is lacking."""
        wanted, kinds = list(self._lacking), list(self._lacking_kinds)
        self.unknown.update(wanted[MAX_REQUESTS:])
        await asyncio.gather(
            *(self._read_one(client, each) for each in wanted[:MAX_REQUESTS]),
            *(self._look_for_kind(client, *each) for each in kinds[:MAX_KINDS]),
        )
        self._lacking.clear()
        self._lacking_kinds.clear()

    async def _read_one(self, client: cluster.Client, wanted: _Key) -> None:
        group, kind, key = wanted
        resource = _READ.get((group, kind))
        if resource is None or not self._followed.may_read(key.namespace):
            self._read[wanted] = None
            self.unknown.add(wanted)
            return
        try:
            self._read[wanted] = await client.get_manifest(resource, key.name, key.namespace)
        except (cluster.NotFound, cluster.Invalid):
            self._read[wanted] = None
        except cluster.ApiError:
            self.unknown.add(wanted)

    async def _look_for_kind(self, client: cluster.Client, group: str, kind: str) -> None:
        """Any version of the group may have the kind. If it cannot be found out, it counts as served."""
        try:
            answer = await client.ask("GET", f"/apis/{quote(group, safe='')}")
            found = msgspec.json.decode(answer.body, type=_Group)
            self._kinds[group, kind] = False
            for version in found.versions[:MAX_KINDS]:
                with contextlib.suppress(cluster.NotFound):
                    await client.resource_of(f"{group}/{version.version}", kind)
                    self._kinds[group, kind] = True
        except cluster.NotFound:
            self._kinds[group, kind] = False
        except (cluster.ApiError, msgspec.DecodeError):
            return

    def without_unknown(self, warnings: Iterable[str]) -> list[str]:
        """The warnings that are not about an object that could not be read."""
        # Rules look in other namespaces, too, and then name only the object in that of the reference.
        names = [f"/{key.name}" for _, _, key in self.unknown]
        return [each for each in warnings if not any(name in each for name in names)]
