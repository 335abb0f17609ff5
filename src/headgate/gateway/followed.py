"""The objects that a gateway routes by, followed on their API server.

A server may lack kinds, as who uses one dialect need not install the definitions of another: of those there
are no objects then, until there are.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

from headgate import api, cluster, routing
from headgate.api import gie_v1, gie_v1alpha1

SECRETS_PATIENCE_S = 5.0
"""How long a start waits for the Secrets that are named: some may not be readable."""

_KINDS: dict[str, type[Any]] = {
    routing.MODEL_SERVER: api.ModelServer,
    routing.INFERENCE_POOL: gie_v1.InferencePool,
    routing.INFERENCE_POOL_V1ALPHA1: gie_v1alpha1.InferencePool,
    routing.INFERENCE_MODEL: api.InferenceModel,
    routing.INFERENCE_OBJECTIVE: api.InferenceObjective,
}


class FollowedObjects:
    """Calls `changed` when something did that routing reads; `translated` then translates that alone."""

    def __init__(self, client: cluster.Client, namespace: str | None, changed: Callable[[], None]) -> None:
        self._changed = changed
        self.translator = routing.Translator()
        self._routes = cluster.Informer(client, api.ModelRoute, namespace, may_be_absent=True)
        self._pods = cluster.Informer(client, api.Pod, namespace)
        self._secrets = cluster.NamedObjects(client, api.Secret, self._put_secret)
        self._followed_secrets: frozenset[api.ObjectKey] = frozenset()
        kinds: tuple[tuple[str, cluster.Informer[Any]], ...] = (
            (routing.MODEL_ROUTE, self._routes),
            *(
                (name, cluster.Informer(client, kind, namespace, may_be_absent=True))
                for name, kind in _KINDS.items()
            ),
        )
        for name, informer in kinds:
            informer.subscribe(functools.partial(self._put, name))
        self._pods.subscribe(self._put_pod)
        self._informers = (*(informer for _, informer in kinds), self._pods)

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Follows them as long as the tasks run; returns once all are known."""
        for informer in self._informers:
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
        # One that is followed no more may still say something until its watch has ended.
        if key in self._followed_secrets and self.translator.put_secret(key, change.new):
            self._changed()


def _facts(obj: Any) -> object:
    """What routing reads of an object: statuses change often, and must not cost a translation."""
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
