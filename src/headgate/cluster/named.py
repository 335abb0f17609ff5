"""Single objects followed by name, where the rest of their kind is nobody's business: Secrets, above all.

Each is a watch of its own, so that rights to it can be given for it alone (`resourceNames` of a Role).
"""

import asyncio
from collections.abc import Iterable
from typing import Generic

from headgate import api
from headgate.cluster.client import Client
from headgate.cluster.informer import Informer, Pacing
from headgate.cluster.store import Handler, K


class NamedObjects(Generic[K]):
    """Follows those objects of a kind that it was last told to, while `run()` runs."""

    def __init__(
        self, client: Client, kind: type[K], handler: Handler[K], pacing: Pacing | None = None
    ) -> None:
        self._client = client
        self._kind = kind
        self._handler = handler
        self._pacing = pacing
        self._wanted: dict[api.ObjectKey, Informer[K]] = {}
        self._running: dict[Informer[K], asyncio.Task[None]] = {}
        self._changed = asyncio.Event()

    def follow(self, keys: Iterable[api.ObjectKey]) -> None:
        """These from now on, and no others; what was followed before is not listed anew."""
        self._wanted = {key: self._wanted.get(key) or self._informer(key) for key in keys}
        self._changed.set()

    def get(self, key: api.ObjectKey) -> K | None:
        informer = self._wanted.get(key)
        return informer.get(key.namespace, key.name) if informer is not None else None

    def items(self) -> list[K]:
        return [obj for informer in self._wanted.values() for obj in informer.items()]

    def is_known(self, key: api.ObjectKey) -> bool:
        """Whether the server said something about the object: that it is there, that it is not, or that it
        is none of our business."""
        informer = self._wanted.get(key)
        return informer is not None and (informer.synced.is_set() or informer.statistics().restarts > 0)

    async def wait_known(self, timeout_s: float) -> None:
        """Until all are known, or the time is over: one object must not hold up the others."""
        waits = [informer.wait_synced(timeout_s) for informer in self._wanted.values()]
        await asyncio.gather(*waits, return_exceptions=True)

    async def run(self) -> None:
        """Works until cancelled, and survives what informers survive."""
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
            field_selector=f"metadata.name={key.name}",
            pacing=self._pacing,
        )
        informer.subscribe(self._handler)
        return informer
