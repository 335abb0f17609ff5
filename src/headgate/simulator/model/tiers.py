"""Places for cached blocks beside the accelerator's memory, and the events that tell what they hold."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from headgate.simulator.model.request import RequestId

# What a prefix cache tells about itself: blocks it stored and dropped, after vLLM's KV cache events.
GPU = "GPU"
"""The medium of blocks in the accelerator's memory, by vLLM's name."""
CPU = "CPU"
"""The medium of blocks in the host's memory."""
DISK = "DISK"
"""The medium of blocks on a disk."""
REMOTE = "REMOTE"
"""The medium of blocks in a store that engines share. Each tells of those that it put there."""


class BlockStored(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive full blocks of a request can be found by their hashes from now on. Of the tiers below
    only the hashes are told, in no order, as vLLM does."""

    hashes: tuple[int, ...]
    parent: int | None
    """Hash of the block before the first of them; None at the front of a request."""
    block_size: int
    request_id: RequestId | None = None
    """Whose prompt and answer they are a part of: who has the text knows their token ids from it and from
    `position`."""
    position: int = 0
    """Index of the first of them among the blocks of that request."""
    adapter: str = ""
    medium: str = GPU


class BlockRemoved(msgspec.Struct, frozen=True, kw_only=True):
    """These hashes find nothing any more."""

    hashes: tuple[int, ...]
    medium: str = GPU


class AllBlocksCleared(msgspec.Struct, frozen=True, kw_only=True):
    """No hash finds anything any more."""


KvEvent = BlockStored | BlockRemoved | AllBlocksCleared


# Further places for cached blocks, larger and slower than the accelerator's: the host's memory, a disk.
class Below(NamedTuple):
    """Of a prompt that begins: where the blocks are that come after those on the accelerator."""

    in_host: int = 0
    on_disk: int = 0
    in_remote: int = 0

    @property
    def blocks(self) -> int:
        return sum(self)


class LowerTier:
    """Takes what the tier above drops, and drops what was used least recently."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self._held: OrderedDict[int, None] = OrderedDict()  # least recently used first

    def __len__(self) -> int:
        return len(self._held)

    def use(self, hashes: Sequence[int]) -> int:
        """How many blocks are here from the front of `hashes`; they are used now."""
        held = self._held
        for found, block in enumerate(hashes):
            if block not in held:
                return found
            held.move_to_end(block)
        return len(hashes)

    def use_one(self, block: int) -> bool:
        """Whether a block is here; it is used now."""
        if block not in self._held:
            return False
        self._held.move_to_end(block)
        return True

    def count(self, hashes: Sequence[int]) -> int:
        """How many blocks are here from the front of `hashes`."""
        return next((at for at, block in enumerate(hashes) if block not in self._held), len(hashes))

    def store(self, hashes: Iterable[int]) -> tuple[list[int], list[int]]:
        """Blocks that come from the tier above; gives those that are new here, and those that had
        to go."""
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


# A store of cached blocks that engines share, as LMCache's remote one: what one put there, others find.
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
