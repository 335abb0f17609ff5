"""A store of cached blocks that engines share, as LMCache's remote one: what one put there, others find."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable


class RemoteStore:
    """Blocks by their hash, over all engines that are connected; what was used least recently goes first.

    All of these engines must have blocks of the same size, as equal hashes are taken for equal blocks.
    """

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self._held: OrderedDict[int, RemoteTier] = OrderedDict()
        """With who put each there, the least recently used first."""

    def __len__(self) -> int:
        return len(self._held)

    def connect(self, *, tells: bool) -> RemoteTier:
        """One engine's way to it. `tells` keeps what is dropped of it for `RemoteTier.take_dropped`."""
        return RemoteTier(self._held, self.blocks, tells=tells)


class RemoteTier:
    """What one engine sees of a store."""

    def __init__(self, held: OrderedDict[int, RemoteTier], blocks: int, *, tells: bool) -> None:
        self._held = held
        self._blocks = blocks
        self._tells = tells
        self._dropped: list[int] = []

    def use_one(self, block: int) -> bool:
        """Whether a block is there, whoever put it; it is used now."""
        if block not in self._held:
            return False
        self._held.move_to_end(block)
        return True

    def put(self, hashes: Iterable[int]) -> list[int]:
        """Blocks that were computed here, in their order; gives those that were not there."""
        held = self._held
        new = []
        for block in hashes:
            if block in held:
                held.move_to_end(block)
            else:
                held[block] = self
                new.append(block)
        while len(held) > self._blocks:
            dropped, owner = held.popitem(last=False)
            if owner._tells:
                owner._dropped.append(dropped)
        return new

    def take_dropped(self) -> list[int]:
        """Blocks that this engine put there and that had to go since the last call."""
        dropped, self._dropped = self._dropped, []
        return dropped

    def begin_anew(self) -> RemoteTier:
        """For an engine that forgets what it put there: that is still found, and nothing is told of it."""
        return RemoteTier(self._held, self._blocks, tells=self._tells)
