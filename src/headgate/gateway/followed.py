"""The objects that a gateway routes by, followed on their API server.

A server may lack kinds, as who uses one dialect need not install the definitions of another: of those there
are no objects then, until there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from headgate import api, cluster, routing
from headgate.api import gie_v1, gie_v1alpha1

SECRETS_PATIENCE_S = 5.0
"""How long a start waits for the Secrets that are named: some may not be readable."""


class FollowedObjects:
    """Calls `changed` when something did that routing reads."""

    def __init__(self, client: cluster.Client, namespace: str | None, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._pods = cluster.Informer(client, api.Pod, namespace)
        self._routes = cluster.Informer(client, api.ModelRoute, namespace, may_be_absent=True)
        self._servers = cluster.Informer(client, api.ModelServer, namespace, may_be_absent=True)
        self._pools = cluster.Informer(client, gie_v1.InferencePool, namespace, may_be_absent=True)
        self._old_pools = cluster.Informer(client, gie_v1alpha1.InferencePool, namespace, may_be_absent=True)
        self._models = cluster.Informer(client, api.InferenceModel, namespace, may_be_absent=True)
        self._objectives = cluster.Informer(client, api.InferenceObjective, namespace, may_be_absent=True)
        self._secrets = cluster.NamedObjects(client, api.Secret, lambda _: changed())
        self._informers: tuple[cluster.Informer[Any], ...] = (
            self._routes,
            self._servers,
            self._pools,
            self._old_pools,
            self._models,
            self._objectives,
            self._pods,
        )

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Follows them as long as the tasks run; returns once all are known."""
        for informer in self._informers:
            informer.subscribe(self._note)
            tasks.create_task(informer.run())
        for informer in self._informers:
            await informer.wait_synced()
        tasks.create_task(self._secrets.run())
        self._follow_secrets()
        await self._secrets.wait_known(SECRETS_PATIENCE_S)

    def follow_routes(self, note: Callable[[cluster.Change[api.ModelRoute]], None]) -> None:
        """Tells every change of a ModelRoute, its status included."""
        self._routes.subscribe(note)

    def translated(self) -> routing.Snapshot:
        """The objects as they are now."""
        self._follow_secrets()
        return routing.translate(
            self._routes.items(),
            self._servers.items(),
            self._pods.items(),
            self._secrets.items(),
            routing.InferenceObjects(
                pools=(*self._pools.items(), *self._old_pools.items()),
                models=self._models.items(),
                objectives=self._objectives.items(),
            ),
        )

    def _follow_secrets(self) -> None:
        pools: list[routing.PoolObject] = [*self._servers.items(), *self._pools.items()]
        pools += self._old_pools.items()
        self._secrets.follow({key for pool in pools if (key := routing.authorities_of(pool))})

    def _note(self, change: cluster.Change[Any]) -> None:
        if _facts(change.old) != _facts(change.new):
            self._changed()


def _facts(obj: Any) -> object:
    """What routing reads of an object: statuses change often, and must not cost a translation."""
    if obj is None:
        return None
    metadata = obj.metadata
    if not isinstance(obj, api.Pod):
        return (
            metadata.uid,
            metadata.creation_timestamp,
            metadata.deletion_timestamp,
            metadata.annotations,
            obj.spec,
        )
    if not obj.ready:
        return None
    return obj.status.pod_ip, metadata.labels, metadata.annotations, obj.spec.containers
