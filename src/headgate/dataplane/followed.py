"""Watches the objects on the API server from which the gateway routes.

A server may lack kinds, as users of one dialect need not install the definitions of another. A missing kind
has no objects until it is installed.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headgate import api, cluster, routing
from headgate.api import gie_v1, gie_v1alpha1

ACCESS_PATIENCE_S = 5.0
"""How long a start waits for rights that were not there at once: roles may be created at the same time."""
SECRETS_PATIENCE_S = 5.0
"""How long a start waits for the named Secrets: some may not be readable."""

_KINDS: dict[str, type[Any]] = {
    routing.MODEL_SERVER: api.ModelServer,
    routing.INFERENCE_POOL: gie_v1.InferencePool,
    routing.INFERENCE_POOL_V1ALPHA1: gie_v1alpha1.InferencePool,
    routing.INFERENCE_MODEL: api.InferenceModel,
    routing.INFERENCE_OBJECTIVE: api.InferenceObjective,
    routing.INFERENCE_MODEL_REWRITE: api.InferenceModelRewrite,
}


class FollowedObjects:
    """Calls `changed` when a field used for routing changed; `translated` then translates only those
    changes."""

    def __init__(
        self, client: cluster.Source, namespaces: Sequence[str], changed: Callable[[], None]
    ) -> None:
        """`namespaces`: those whose objects are followed; all if there are none."""
        scopes = cluster.scopes(namespaces)
        self._changed = changed
        self.translator = routing.Translator()
        self._routes = [
            cluster.Informer(client, api.ModelRoute, scope, may_be_absent=True) for scope in scopes
        ]
        self._pods = [
            cluster.Informer(client, api.Pod, scope, reduced=routing.reduced_pod) for scope in scopes
        ]
        self._secrets = cluster.NamedObjects(client, api.Secret, self._put_secret)
        self._followed_secrets: frozenset[api.ObjectKey] = frozenset()
        kinds: tuple[tuple[str, cluster.Informer[Any]], ...] = (
            *((routing.MODEL_ROUTE, informer) for informer in self._routes),
            *(
                (name, cluster.Informer(client, kind, scope, may_be_absent=True))
                for name, kind in _KINDS.items()
                for scope in scopes
            ),
        )
        for name, informer in kinds:
            informer.subscribe(functools.partial(self._put, name))
        for pods in self._pods:
            pods.subscribe(self._put_pod)
        self._informers = (*(informer for _, informer in kinds), *self._pods)

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Watch the objects as long as the tasks run; return once all are loaded that may be read.

        Without the Pods of at least one namespace, there is nothing to serve, and it waits.
        """
        for informer in self._informers:
            tasks.create_task(informer.run())
        await asyncio.gather(*(each.wait_known(ACCESS_PATIENCE_S) for each in self._informers))
        await _first(pods.synced for pods in self._pods)
        tasks.create_task(self._secrets.run())
        self._follow_secrets()
        await self._secrets.wait_known(SECRETS_PATIENCE_S)

    def follow_routes(self, note: Callable[[cluster.Change[api.ModelRoute]], None]) -> None:
        """Report every change of a ModelRoute, including its status."""
        for routes in self._routes:
            routes.subscribe(note)

    def follow_pods(self, note: Callable[[cluster.Change[api.Pod]], None]) -> None:
        """Report every change of a Pod, with what routing reads of it."""
        for pods in self._pods:
            pods.subscribe(note)

    def denied(self) -> list[cluster.Denied]:
        """The objects that may not be read."""
        found = (informer.denied for informer in self._informers)
        return [denied for denied in found if denied is not None] + self._secrets.denied()

    def translated(self) -> routing.Snapshot:
        """The snapshot of the current objects."""
        self._follow_secrets()
        return self.translator.snapshot()

    def _follow_secrets(self) -> None:
        named = self.translator.named_secrets
        if named != self._followed_secrets:
            gone = self._followed_secrets - named
            self._followed_secrets = frozenset(named)
            self._secrets.follow(self._followed_secrets)
            for key in gone:
                self.translator.put_secret(key, None)

    def _put(self, kind: str, change: cluster.Change[Any]) -> None:
        if _facts(change.old) != _facts(change.new):
            self.translator.put(api.ObjectRef(kind, *change.object.metadata.key), change.new)
            self._changed()

    def _put_pod(self, change: cluster.Change[api.Pod]) -> None:
        if self.translator.put_pod(change.object.metadata.key, change.new):
            self._changed()

    def _put_secret(self, change: cluster.Change[api.Secret]) -> None:
        key = change.object.metadata.key
        # A Secret that is no longer followed may still report changes until its watch has ended.
        if key in self._followed_secrets and self.translator.put_secret(key, change.new):
            self._changed()


async def _first(events: Iterable[asyncio.Event]) -> None:
    """Wait until one of the events is set."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


def _facts(obj: Any) -> object:
    """The fields of an object used for routing: statuses change often, and must not cause translations."""
    if obj is None:
        return None
    metadata = obj.metadata
    return (
        metadata.uid,
        metadata.creation_timestamp,
        metadata.deletion_timestamp,
        metadata.annotations,
        obj.spec,
    )
