"""Cache tiers below GPU memory, and the events that report their contents."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from headgate.simulator.model.request import RequestId

# Prefix cache events: stored and removed blocks, modeled on vLLM's KV cache events.
GPU = "GPU"
"""The medium of blocks in GPU memory, by vLLM's name."""
CPU = "CPU"
"""The medium of blocks in host memory."""
DISK = "DISK"
"""The medium of blocks on disk."""
REMOTE = "REMOTE"
"""The medium of blocks in the shared store. Each engine reports the blocks that it stored."""


class BlockStored(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive full blocks of a request can be found by their hashes from now on. For lower tiers, only
    the hashes are reported, in no order, as in vLLM.
    """

    hashes: tuple[int, ...]
    parent: int | None
    """Hash of the block before the first of them; None at the beginning of a request."""
    block_size: int
    request_id: RequestId | None = None
    """The request that the blocks belong to: its text and `position` give their token IDs."""
    position: int = 0
    """Index of the first of them among the blocks of that request."""
    adapter: str = ""
    medium: str = GPU


class BlockRemoved(msgspec.Struct, frozen=True, kw_only=True):
    """These hashes no longer find anything."""

    hashes: tuple[int, ...]
    medium: str = GPU


class AllBlocksCleared(msgspec.Struct, frozen=True, kw_only=True):
    """No hash finds anything any more."""


KvEvent = BlockStored | BlockRemoved | AllBlocksCleared


# Lower tiers: larger and slower than GPU memory, such as host memory and disk.
class Below(NamedTuple):
    """Where the blocks of a starting prompt are that follow those in GPU memory."""

    in_host: int = 0
    on_disk: int = 0
    in_remote: int = 0

    @property
    def blocks(self) -> int:
        return sum(self)


class LowerTier:
    """Stores blocks evicted from the tier above, and evicts the least recently used."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self._held: OrderedDict[int, None] = OrderedDict()  # least recently used first

    def __len__(self) -> int:
        return len(self._held)

    def use(self, hashes: Sequence[int]) -> int:
        """How many blocks from the front of `hashes` are here; marks them as used."""
        held = self._held
        for found, block in enumerate(hashes):
            if block not in held:
                return found
            held.move_to_end(block)
        return len(hashes)

    def use_one(self, block: int) -> bool:
        """Whether a block is here; marks it as used."""
        if block not in self._held:
            return False
        self._held.move_to_end(block)
        return True

    def count(self, hashes: Sequence[int]) -> int:
        """How many blocks from the front of `hashes` are here."""
        return next((at for at, block in enumerate(hashes) if block not in self._held), len(hashes))

    def store(self, hashes: Iterable[int]) -> tuple[list[int], list[int]]:
        """Store blocks from the tier above; returns the new ones, and those evicted for them."""
        held = self._held
        new = []
        for block in hashes:
            if block not in held:
                new.append(block)
            held[block] = None
            held.move_to_end(block)
        dropped = [held.popitem(last=False)[0] for _ in range(len(held) - self.blocks)]
        return new, dropped

    def clear(self) -> None:
        self._held.clear()


# A shared store of cached blocks, like LMCache's remote backend: engines find blocks that others stored.
class RemoteStore:
    """Blocks by hash, shared by all connected engines; the least recently used are evicted first.

    All of these engines must have the same block size, because equal hashes mean equal blocks.
    """

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self._held: OrderedDict[int, RemoteTier] = OrderedDict()
        """The engine that stored each block, least recently used first."""

    def __len__(self) -> int:
        return len(self._held)

    def connect(self, *, tells: bool) -> RemoteTier:
        """Connect one engine. `tells`: record its evicted blocks for `RemoteTier.take_dropped`."""
        return RemoteTier(self._held, self.blocks, tells=tells)


class RemoteTier:
    """A store from the perspective of one engine."""

    def __init__(self, held: OrderedDict[int, RemoteTier], blocks: int, *, tells: bool) -> None:
        self._held = held
        self._blocks = blocks
        self._tells = tells
        self._dropped: list[int] = []

    def use_one(self, block: int) -> bool:
        """Whether a block is there, from any engine; marks it as used."""
        if block not in self._held:
            return False
        self._held.move_to_end(block)
        return True

    def put(self, hashes: Iterable[int]) -> list[int]:
        """Store computed blocks, in order; returns those that were not there."""
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
        """Blocks stored by this engine and evicted since the last call."""
        dropped, self._dropped = self._dropped, []
        return dropped

    def begin_anew(self) -> RemoteTier:
        """For an engine that restarts and forgets its blocks: they stay, but are no longer reported."""
        return RemoteTier(self._held, self._blocks, tells=self._tells)
