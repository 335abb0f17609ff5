"""Follows single objects by name, where the rest of their kind is off limits: mainly Secrets.

Each has its own watch, so that access can be granted for it alone (`resourceNames` of a Role).
"""

import asyncio
from collections.abc import Iterable
from typing import Generic

from headgate import api
from headgate.cluster.informer import OBJECT_NAME, Informer, Pacing
from headgate.cluster.local_objects import Source
from headgate.cluster.rights import Denied
from headgate.cluster.store import Handler, K


class NamedObjects(Generic[K]):
    """Follows the objects of a kind that were last passed to `follow`, while `run()` runs."""

    def __init__(
        self, client: Source, kind: type[K], handler: Handler[K], pacing: Pacing | None = None
    ) -> None:
        self._client = client
        self._kind = kind
        self._handler = handler
        self._pacing = pacing
        self._wanted: dict[api.ObjectKey, Informer[K]] = {}
        self._running: dict[Informer[K], asyncio.Task[None]] = {}
        self._changed = asyncio.Event()

    def follow(self, keys: Iterable[api.ObjectKey]) -> None:
        """Follow exactly these objects; those that were followed before are not listed again."""
        self._wanted = {key: self._wanted.get(key) or self._informer(key) for key in keys}
        self._changed.set()

    def get(self, key: api.ObjectKey) -> K | None:
        informer = self._wanted.get(key)
        return informer.get(key.namespace, key.name) if informer is not None else None

    def items(self) -> list[K]:
        return [obj for informer in self._wanted.values() for obj in informer.items()]

    def is_known(self, key: api.ObjectKey) -> bool:
        """Whether the server has responded about the object: that it exists, does not exist, or is off
        limits."""
        informer = self._wanted.get(key)
        return informer is not None and (
            informer.synced.is_set() or informer.denied is not None or informer.statistics().restarts > 0
        )

    def denied(self) -> list[Denied]:
        """The objects that may not be read."""
        found = (informer.denied for informer in self._wanted.values())
        return [denied for denied in found if denied is not None]

    async def wait_known(self, timeout_s: float) -> None:
        """Wait until all are known, or the time is over: one object must not hold up the others."""
        waits = [informer.wait_synced(timeout_s) for informer in self._wanted.values()]
        await asyncio.gather(*waits, return_exceptions=True)

    async def run(self) -> None:
        """Run until cancelled; survives what informers survive."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._changed.clear()
                wanted = set(self._wanted.values())
                for informer in self._running.keys() - wanted:
                    self._running.pop(informer).cancel()
                for informer in wanted - self._running.keys():
                    self._running[informer] = tasks.create_task(informer.run())
                await self._changed.wait()

    def statistics(self) -> dict[str, int]:
        return {"followed": len(self._wanted), "known": sum(map(self.is_known, self._wanted))}

    def _informer(self, key: api.ObjectKey) -> Informer[K]:
        informer = Informer(
            self._client,
            self._kind,
            key.namespace,
            field_selector=f"{OBJECT_NAME}{key.name}",
            pacing=self._pacing,
        )
        informer.subscribe(self._handler)
        return informer
