"""The cache of one engine: blocks of prompts, evicted least recently used first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence


class BlockCache:
    """At most `capacity` blocks. The tail of a prompt is older than its front, as engines free it first."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def __contains__(self, block: int) -> bool:
        return block in self._blocks

    def matched(self, prefix: Sequence[int]) -> int:
        """How many leading blocks of a prompt are cached."""
        blocks = self._blocks
        count = 0
        for block in prefix:
            if block not in blocks:
                break
            count += 1
        return count

    def use(self, prefix: Sequence[int]) -> list[int]:
        """Cache the prompt, its front for longest; returns the evicted blocks."""
        blocks = self._blocks
        for block in reversed(prefix):
            blocks[block] = None
            blocks.move_to_end(block)
        gone = []
        while len(blocks) > self.capacity:
            gone.append(blocks.popitem(last=False)[0])
        return gone

    def oldest(self, count: int) -> list[int]:
        """The next `count` blocks to be evicted."""
        return [block for block, _ in zip(self._blocks, range(count))]  # noqa: B905 - whichever ends first
