"""Who holds how many blocks of the KV cache."""

from headgate.simulator.model.request import RequestId


class KvBlocks:
    """Counts blocks by holder; a holder's tokens fill its blocks in order, the last one partly.

    Blocks are counted, not named: prefix reuse, once it comes, gives blocks an identity inside this class,
    and `hold` then says how many of the tokens it found cached.
    """

    def __init__(self, total: int, block_size: int) -> None:
        self.total = total
        self.block_size = block_size
        self.free = total
        self._held: dict[RequestId, int] = {}

    @property
    def used(self) -> int:
        return self.total - self.free

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def held_by(self, holder: RequestId) -> int:
        return self._held.get(holder, 0)

    def hold(self, holder: RequestId, tokens: int) -> bool:
        """Grow what `holder` has until it covers `tokens`; False, and no change, if that is too much."""
        missing = self.blocks_for(tokens) - self._held.get(holder, 0)
        if missing > self.free:
            return False
        if missing > 0:
            self._held[holder] = self._held.get(holder, 0) + missing
            self.free -= missing
        return True

    def release(self, holder: RequestId) -> None:
        self.free += self._held.pop(holder, 0)

    def validate(self) -> None:
        """Every block is free or held by one holder."""
        held = sum(self._held.values())
        assert held + self.free == self.total, f"{held} held + {self.free} free != {self.total} blocks"
        assert self.free >= 0, f"{self.free} free blocks"
        assert all(count > 0 for count in self._held.values()), "a holder without blocks"
