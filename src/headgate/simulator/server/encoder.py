"""The encoder in front of a multimodal model: it works on an item once, and keeps what came of the last."""

import asyncio
from collections import OrderedDict
from collections.abc import Container, Sequence

from headgate.simulator.server.generation import Item


class Encoder:
    """Encodes one item after the other. What another engine has encoded need not be encoded here."""

    def __init__(self, item_s: float, cached_items: int) -> None:
        self._item_s = item_s
        self._cached_items = cached_items
        self._cache: OrderedDict[str, None] = OrderedDict()  # least recently used first
        self._working = asyncio.Lock()
        self.queries = 0
        self.hits = 0

    async def encode(self, items: Sequence[Item], received: Container[str]) -> None:
        """Returns once all items are encoded; `received` are the hashes of those that come from elsewhere."""
        for item in items:
            self.queries += 1
            if item.hash in self._cache or item.hash in received:
                self.hits += 1
            elif self._item_s:
                async with self._working:
                    await asyncio.sleep(self._item_s)
            self._keep(item.hash)

    def clear(self) -> None:
        """As a new process."""
        self._cache.clear()

    def _keep(self, digest: str) -> None:
        self._cache[digest] = None
        self._cache.move_to_end(digest)
        if len(self._cache) > self._cached_items:
            self._cache.popitem(last=False)
