"""Further places for cached blocks, larger and slower than the accelerator's: the host's memory, a disk."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple


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
