"""The blocks that one endpoint is believed to hold, the least recently used ones leaving first."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

BATCHES = 16
"""A limit's worth of blocks is so many batches: so finely is the order of use known."""
SMALLEST_BATCH = 16


class Batch(dict[int, int]):
    """Blocks that were used at about the same time, with their sizes; of a prompt the front comes first."""

    __slots__ = ("at",)

    def __init__(self, at: float) -> None:
        super().__init__()
        self.at = at


class Held:
    """The blocks of one endpoint. Where a block is held, all before it in its prompt are held as well.

    A prompt's tail leaves before its head, as in the engines: a head without its tail is of use, a tail
    without its head is not. It holds since a use of a block is a use of all before it: those are in the same
    batch or a later one, and in the same one they came first. Blocks leave from the oldest batch, the last
    that came first. Batches make a use of blocks cheap: to use those of the newest one again costs nothing.
    """

    __slots__ = (
        "_batch_of",
        "_batch_s",
        "_batches",
        "_newest",
        "_prune_at",
        "_sizes",
        "bit",
        "limit",
        "size",
    )

    def __init__(self, bit: int, limit: int, batch_s: float, sizes: Sequence[int] = ()) -> None:
        """`sizes` are those of any prompt's blocks, in their order; none where each is one unit."""
        self.bit = bit
        self.limit = limit
        """In units, as sizes are."""
        self.size = 0
        self._batch_s = batch_s
        self._sizes = sizes
        self._batch_of: dict[int, Batch] = {}
        self._newest = Batch(-math.inf)
        self._batches = deque((self._newest,))
        self._prune_at = 64

    def __len__(self) -> int:
        return len(self._batch_of)

    def used_at(self, block: int) -> float | None:
        """About when a block was used last; None if it is not held."""
        batch = self._batch_of.get(block)
        return None if batch is None else batch.at

    @property
    def oldest_at(self) -> float | None:
        """About when the block that leaves next was used; None if none is held."""
        return next((batch.at for batch in self._batches if batch), None)

    def count(self, prefix: Sequence[int]) -> int:
        """How many blocks of a prompt are held, which are those at its front."""
        low, high = 0, len(prefix)
        batch_of = self._batch_of
        while low < high:
            middle = (low + high) // 2
            if prefix[middle] in batch_of:
                low = middle + 1
            else:
                high = middle
        return low

    def use(self, prefix: Sequence[int], now: float) -> Sequence[int]:
        """Notes that a prompt is there now, and returns those of its blocks that were not held before."""
        newest = self._newest
        if prefix[-1] in newest and now - newest.at < self._batch_s:
            return ()  # and so are all before it
        if now - newest.at >= self._batch_s or len(newest) * BATCHES >= max(self.limit, SMALLEST_BATCH):
            newest = self._begin_batch(now)
        batch_of = self._batch_of
        known = self.count(prefix)
        moved: dict[int, int] = {}
        for block in prefix[known - 1 :: -1] if known else ():
            batch = batch_of.get(block)
            if batch is newest:
                break  # and so are all before it
            if batch is not None:
                moved[block] = batch.pop(block, 1)
        if moved:
            newest.update(reversed(moved.items()))
            batch_of.update(dict.fromkeys(moved, newest))
        if known == len(prefix):
            return ()
        added = prefix[known:] if known else prefix
        if self._sizes:
            sizes = self._sizes[known : len(prefix)]
            newest.update(zip(added, sizes, strict=True))
            self.size += sum(sizes)
        else:
            newest.update(dict.fromkeys(added, 1))
            self.size += len(added)
        batch_of.update(dict.fromkeys(added, newest))
        return added

    def _begin_batch(self, now: float) -> Batch:
        if not self._newest:
            self._newest.at = now
            return self._newest
        if len(self._batches) >= self._prune_at:
            self._batches = deque(batch for batch in self._batches if batch)
            self._prune_at = 2 * len(self._batches) + 64
        self._newest = Batch(now)
        self._batches.append(self._newest)
        return self._newest

    def keep_within(self, limit: int) -> list[int]:
        """Lets blocks go until the size is within the limit; returns them."""
        gone: list[int] = []
        excess = self.size - limit
        while excess > 0:
            oldest = self._oldest()
            pop = oldest.popitem
            while oldest and excess > 0:
                block, size = pop()
                gone.append(block)
                excess -= size
        self.size = limit + excess
        return self._gone(gone)

    def forget_until(self, at: float, most: int) -> list[int]:
        """Lets blocks go that were used at `at` or before, `most` of them; returns them."""
        gone: list[int] = []
        while len(gone) < min(most, len(self._batch_of)):
            oldest = self._oldest()
            if oldest.at > at:
                break
            while oldest and len(gone) < most:
                block, size = oldest.popitem()
                gone.append(block)
                self.size -= size
        return self._gone(gone)

    def clear(self) -> list[int]:
        """Lets all blocks go; returns them."""
        return self.forget_until(math.inf, len(self._batch_of))

    def _gone(self, blocks: list[int]) -> list[int]:
        batch_of = self._batch_of
        for block in blocks:
            batch_of.pop(block, None)  # it is there, unless two prompts had one hash
        return blocks

    def _oldest(self) -> Batch:
        """The oldest batch with blocks; there must be one."""
        batches = self._batches
        while not batches[0]:
            batches.popleft()
        return batches[0]

    def blocks(self) -> list[int]:
        """All that are held, those that leave first at the end of the list."""
        return [block for batch in reversed(self._batches) for block in batch]

    def validate(self) -> None:
        """Checks the invariants; for tests."""
        batches = list(self._batches)
        assert batches[-1] is self._newest
        assert sum(map(len, batches)) == len(self._batch_of)
        assert all(self._batch_of[block] is batch for batch in batches for block in batch)
        assert self.size == sum(sum(batch.values()) for batch in batches) <= self.limit
        assert [batch.at for batch in batches] == sorted(batch.at for batch in batches)
