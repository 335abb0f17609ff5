"""The blocks that one engine reports: its names for them, and the tiers in which each rank holds them.

Engines report lower tiers by name only, often after they have dropped the block from the tier above. So a
name is remembered for a while after the last tier dropped it.
"""

from __future__ import annotations

from collections import OrderedDict

from headgate.fleet.prefix import tiers
from headgate.fleet.prefix.kv_events import EngineHash
from headgate.routing.kv_events import MAX_RANKS

MAX_BLOCKS = 500_000
"""Blocks per rank; engines with larger caches are not tracked."""
MAX_BLOCKS_TOGETHER = 4_000_000
"""Blocks of all engines and ranks: 1 GB. Each engine may use what is free, so one that reports too many
leaves the others theirs."""
REMEMBERED = 20_000
"""Names of blocks that are in no tier any more."""

_IN_TIER = tuple(
    sum(1 << (rank * tiers.TIERS + tier) for rank in range(MAX_RANKS)) for tier in range(tiers.TIERS)
)
"""Mask of one tier, for all ranks."""
_OF_RANK = (1 << tiers.TIERS) - 1
"""Mask of rank 0, for all tiers."""


class TooManyBlocksError(ValueError):
    """An engine reports more blocks than any cache has, or than all engines together may have."""


class Tally:
    """Names of blocks that all accounts of a process hold together."""

    def __init__(self) -> None:
        self.held = 0


class Account:
    """The blocks of one engine, by our own hashes, with one bit for each rank and tier."""

    def __init__(self, bit: int, tally: Tally) -> None:
        self.bit = bit
        """The bit that stands for the engine."""
        self.held = 0
        """Names of blocks, of all ranks; also counted in `tally`."""
        self._tally = tally
        self.block_tokens = 0
        self.is_complete = False
        self.group: int | None = None
        """The group of layers whose events count; None before the first event."""
        self.is_whole = False
        """Whether that group keeps the whole prompt."""
        self.where: dict[int, int] = {}
        """For each block in any tier: bit `rank * TIERS + tier`."""
        self.in_tier = [0] * tiers.TIERS
        """Blocks in each tier, of all ranks together."""
        self._names: dict[int, dict[EngineHash, int]] = {}
        """By rank: the block of each name."""
        self._gone: OrderedDict[tuple[int, EngineHash], int] = OrderedDict()

    def forget(self, bit: int) -> list[int]:
        """Drop everything and use another bit for the engine; returns the blocks that were in any tier."""
        blocks = list(self.where)
        self.bit, self.where, self.in_tier = bit, {}, [0] * tiers.TIERS
        self._names, self._gone = {}, OrderedDict()
        self._count(-self.held)
        return blocks

    def _count(self, more: int) -> None:
        self.held += more
        self._tally.held += more

    def ranks(self) -> list[int]:
        """The ranks that have reported anything."""
        return list(self._names)

    def has(self, tier: int, block: int) -> bool:
        """Whether any rank has a block in a tier."""
        return bool(self.where.get(block, 0) & _IN_TIER[tier])

    def named(self, rank: int, name: EngineHash) -> int | None:
        """The block that a rank's name stands for; None if unknown."""
        block = self._names.get(rank, {}).get(name)
        return self._gone.get((rank, name)) if block is None else block

    def check_capacity(self, rank: int, count: int) -> None:
        """Raise TooManyBlocksError if a rank must not add `count` blocks."""
        if len(self._names.get(rank, ())) + count > MAX_BLOCKS:
            raise TooManyBlocksError(f"the engine tells of more than {MAX_BLOCKS} blocks")
        if self.held + count > MAX_BLOCKS_TOGETHER - self._tally.held:
            raise TooManyBlocksError(
                f"the engine tells of {self.held + count} blocks, and of the {MAX_BLOCKS_TOGETHER} of all "
                f"engines together {self._tally.held} are in use"
            )

    def hold(self, rank: int, tier: int, name: EngineHash, block: int) -> bool:
        """Record that a rank has a block in a tier; returns whether no rank had it there before."""
        names = self._names.setdefault(rank, {})
        self._count(name not in names)
        names[name] = block
        self._gone.pop((rank, name), None)
        where = self.where.get(block, 0)
        self.where[block] = where | 1 << (rank * tiers.TIERS + tier)
        if where & _IN_TIER[tier]:
            return False
        self.in_tier[tier] += 1
        return True

    def drop(self, rank: int, tier: int, name: EngineHash) -> int | None:
        """Record that a rank has dropped a block from a tier; returns the block if no rank has it there any
        more."""
        names = self._names.get(rank, {})
        block = names.get(name)
        if block is None:
            return None
        before = self.where.get(block, 0)
        where = before & ~(1 << (rank * tiers.TIERS + tier))
        if where:
            self.where[block] = where
        else:
            self.where.pop(block, None)
        if not where & _OF_RANK << rank * tiers.TIERS:
            del names[name]
            self._count(-1)
            self._remember(rank, name, block)
        if not before & _IN_TIER[tier] or where & _IN_TIER[tier]:
            return None
        self.in_tier[tier] -= 1
        return block

    def _remember(self, rank: int, name: EngineHash, block: int) -> None:
        self._gone[rank, name] = block
        if len(self._gone) > REMEMBERED:
            self._gone.popitem(last=False)

    def clear(self, rank: int, most: int) -> tuple[list[tuple[int, int]], bool]:
        """Remove up to `most` blocks of a rank that was cleared. Returns tier and block of what no other rank
        has there, and whether blocks are left: then call it again before the rank's next event."""
        gone = []
        names = self._names.get(rank, {})
        cleared = min(most, len(names))
        self._count(-cleared)
        for _ in range(cleared):
            block = names.popitem()[1]
            before = self.where.pop(block, 0)
            where = before & ~(_OF_RANK << rank * tiers.TIERS)
            if where:
                self.where[block] = where
            for tier in range(tiers.TIERS):
                if before & _IN_TIER[tier] and not where & _IN_TIER[tier]:
                    self.in_tier[tier] -= 1
                    gone.append((tier, block))
        if names:
            return gone, True
        self._names.pop(rank, None)
        for key in [key for key in self._gone if key[0] == rank]:
            del self._gone[key]
        return gone, False

    def validate(self) -> None:
        """Check the invariants; for tests."""
        assert self.held == sum(map(len, self._names.values()))
        named: dict[int, int] = {}
        for rank, names in self._names.items():
            for block in names.values():
                named[block] = named.get(block, 0) | _OF_RANK << rank * tiers.TIERS
        for block, where in self.where.items():
            assert where, "a block that is nowhere"
            assert not where & ~named.get(block, 0), "a block without a name"
        for tier, count in enumerate(self.in_tier):
            assert count == sum(self.has(tier, block) for block in self.where)
        assert len(self._gone) <= REMEMBERED
        assert not any(name in self._names.get(rank, {}) for rank, name in self._gone)
