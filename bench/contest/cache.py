"""The cache of one engine: blocks of prompts, the least recently used leaving first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence


class BlockCache:
    """At most `capacity` blocks. Of a prompt the tail is the older part, as engines free it first."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def matched(self, prefix: Sequence[int]) -> int:
        """How many blocks of a prompt are held, from its front."""
        blocks = self._blocks
        count = 0
        for block in prefix:
            if block not in blocks:
                break
            count += 1
        return count

    def use(self, prefix: Sequence[int]) -> None:
        """The prompt is in the cache from now on, its front for longest."""
        blocks = self._blocks
        for block in reversed(prefix):
            blocks[block] = None
            blocks.move_to_end(block)
        while len(blocks) > self.capacity:
            blocks.popitem(last=False)
