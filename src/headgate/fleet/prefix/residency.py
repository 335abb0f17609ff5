"""The token blocks that engines report to hold, by hashes of our own.

Engines hash their blocks in different ways. Each reported block gets a hash of its tokens and of all before
them, so equal prompts on two engines have equal hashes.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from itertools import repeat
from operator import or_
from typing import Final

import xxhash

from headgate.fleet.ledger import EndpointState
from headgate.fleet.prefix import kv_events, masks, tiers
from headgate.fleet.prefix.account import Account, Tally, TooManyBlocksError

EXPECTED_S: Final = 5.0
"""How long blocks of a prompt that was just sent count as held before the engine reports them."""

CLEANED_AT_ONCE: Final = 20_000
"""Blocks whose outdated marks are removed in one sweep."""

FRONT: Final = 0
"""The beginning of every prompt, which all engines hold."""

_digest = xxhash.xxh3_64_intdigest


def front(adapter: str, block_tokens: int) -> int:
    """The seed of a prompt's first block."""
    return _digest(adapter.encode(), block_tokens)


def chain(tokens: array[int], block_tokens: int, before: int) -> list[int]:
    """The hashes of the whole token blocks, each chained to the one before it."""
    data, width = tokens.tobytes(), tokens.itemsize * block_tokens
    whole = len(data) - len(data) % width
    return [before := _digest(data[at : at + width], before) for at in range(0, whole, width)]


class Residency:
    """For each tier of memory, block hash to a bitmask of the engines that report to hold it."""

    def __init__(self) -> None:
        self._accounts: dict[EndpointState, Account] = {}
        self._tally = Tally()
        self._free_bits: list[int] = []
        self._retired: deque[tuple[int, list[int]]] = deque()
        """Bits that no engine uses any more, and the blocks still marked with them: up to half a million, too
        many to clear in one turn of the event loop."""
        self._holders: tuple[dict[int, int], ...] = tuple({} for _ in range(tiers.TIERS))
        self._holders[tiers.GPU][FRONT] = -1
        self._expected: deque[tuple[float, EndpointState, list[int]]] = deque()
        self.unplaced = 0
        """Blocks that could not be placed: their tokens are unknown, or there was no capacity."""

    def __contains__(self, load: EndpointState) -> bool:
        return load in self._accounts

    def loads(self) -> list[EndpointState]:
        return list(self._accounts)

    def begin(self, load: EndpointState) -> None:
        """Track an engine, with nothing in its cache yet."""
        self.end(load)
        self._accounts[load] = Account(self._new_bit(), self._tally)

    def _new_bit(self) -> int:
        if self._free_bits:
            return self._free_bits.pop()
        return 1 << (len(self._accounts) + len(self._retired))

    def end(self, load: EndpointState) -> None:
        """Stop tracking an engine."""
        account = self._accounts.get(load)
        if account is not None:
            self._retire(account, 0)
            del self._accounts[load]

    def set_complete(self, load: EndpointState, is_complete: bool) -> None:
        """Set whether the engine has reported all that it holds; otherwise it may hold more."""
        self._accounts[load].is_complete = is_complete

    def is_complete(self, load: EndpointState) -> bool:
        account = self._accounts.get(load)
        return account is not None and account.is_complete

    def block_tokens(self, load: EndpointState) -> int:
        """Tokens per block; 0 until the engine has reported one."""
        account = self._accounts.get(load)
        return 0 if account is None else account.block_tokens

    def blocks(self, load: EndpointState) -> int:
        """How many different blocks an engine reports to hold."""
        account = self._accounts.get(load)
        return 0 if account is None else len(account.where)

    def blocks_in_tiers(self, load: EndpointState) -> dict[str, int]:
        """Its blocks in each tier; a block may be in several."""
        account = self._accounts.get(load)
        return dict(zip(tiers.NAMES, account.in_tier if account is not None else repeat(0), strict=False))

    @property
    def blocks_together(self) -> int:
        """Blocks of all engines, counted once per rank that has them."""
        return self._tally.held

    # -- reports of engines

    def apply(self, load: EndpointState, event: kv_events.Event, rank: int = 0) -> bool:
        """Apply an event of a tracked engine. Raises TooManyBlocksError.

        Returns whether a cleared cache has blocks left to remove: then call `clear_rank`.
        """
        account = self._accounts[load]
        match event:
            case kv_events.Stored():
                if self._follows(account, event):
                    self._store(account, event, rank)
            case kv_events.Removed():
                if event.group == account.group:
                    self._remove(account, event, rank)
            case kv_events.Cleared():
                return self._clear_rank(account, rank)
        return False

    def clear_rank(self, load: EndpointState, rank: int) -> bool:
        """Remove a bounded number of blocks of a rank that was cleared. Returns whether blocks are left: then
        call it again before the rank's next event."""
        return self._clear_rank(self._accounts[load], rank)

    def _follows(self, account: Account, event: kv_events.Stored) -> bool:
        """Whether the event's group of layers counts: the first that keeps the whole prompt, or the first of
        all until such a group reports."""
        if account.group is None or (event.is_whole and not account.is_whole):
            if event.group != account.group:
                self._retire(account, self._new_bit())
            account.group, account.is_whole = event.group, event.is_whole
        return event.group == account.group

    def _clear_rank(self, account: Account, rank: int) -> bool:
        if account.ranks() == [rank]:
            self._retire(account, self._new_bit())
            return False
        gone, has_more = account.clear(rank, kv_events.SLICE_BLOCKS)
        for tier, block in gone:
            _unset(self._holders[tier], block, account.bit)
        return has_more

    def _store(self, account: Account, event: kv_events.Stored, rank: int) -> None:
        tier = tiers.of_medium(event.medium)
        try:
            account.check_capacity(rank, len(event.hashes))
        except TooManyBlocksError:
            if tier == tiers.GPU:
                raise
            self.unplaced += len(event.hashes)
            return
        self._clean(2 * len(event.hashes))
        blocks = _chained(account, event, rank)
        holders = self._holders[tier]
        for n, name in enumerate(event.hashes):
            block = account.named(rank, name)
            if block is None and blocks:
                block = blocks[n]
            if block is None:
                self.unplaced += 1
            elif account.hold(rank, tier, name, block):
                holders[block] = holders.get(block, 0) | account.bit

    def _remove(self, account: Account, event: kv_events.Removed, rank: int) -> None:
        tier = tiers.of_medium(event.medium)
        for name in event.hashes:
            block = account.drop(rank, tier, name)
            if block is not None:
                _unset(self._holders[tier], block, account.bit)

    def _retire(self, account: Account, bit: int) -> None:
        """Give an engine that holds nothing any more another bit. Its old one is free once no block is marked
        with it."""
        expected = [
            block
            for _, load, blocks in self._expected
            if self._accounts.get(load) is account
            for block in blocks
        ]
        old = account.bit
        self._retired.append((old, account.forget(bit) + expected))

    def _clean(self, most: int) -> None:
        """Remove up to `most` marks of retired bits. Each stored block removes two, so that they cannot pile
        up."""
        while self._retired and most > 0:
            bit, blocks = self._retired[0]
            for _ in range(min(most, len(blocks))):
                block = blocks.pop()
                for holders in self._holders:
                    _unset(holders, block, bit)
                most -= 1
            if not blocks:
                self._retired.popleft()
                self._free_bits.append(bit)

    # -- prompts just sent

    def expect(self, load: EndpointState, blocks: Sequence[int], now: float) -> None:
        """Record that a prompt was sent to an engine: its blocks count as held until the engine must have
        reported them."""
        account = self._accounts.get(load)
        if account is None:
            return
        missing = [block for block in blocks if block != FRONT and not account.has(tiers.GPU, block)]
        if not missing:
            return
        holders = self._holders[tiers.GPU]
        for block in missing:
            holders[block] = holders.get(block, 0) | account.bit
        self._expected.append((now + EXPECTED_S, load, missing))

    def sweep(self, now: float) -> None:
        """Drop expected blocks that were not reported in time; called regularly."""
        self._clean(CLEANED_AT_ONCE)
        while self._expected and self._expected[0][0] <= now:
            _, load, blocks = self._expected.popleft()
            account = self._accounts.get(load)
            if account is None:
                continue
            for block in blocks:
                if not account.has(tiers.GPU, block):
                    _unset(self._holders[tiers.GPU], block, account.bit)

    # -- lookups

    def accounts(self, loads: Sequence[EndpointState]) -> list[Account | None]:
        """The accounts of engines; None for untracked ones."""
        return list(map(self._accounts.get, loads))

    def held(
        self, blocks: Sequence[int], accounts: Sequence[Account | None]
    ) -> tuple[list[int], Sequence[float]]:
        """For consecutive blocks from the front of a prompt: how many each engine holds, and how many blocks
        on the accelerator those are worth. 0 for untracked engines.

        An engine takes the leading blocks from the accelerator, and the following ones from the next tier.
        """
        places = {account.bit: n for n, account in enumerate(accounts) if account is not None}
        size = len(accounts)
        if not any(self._holders[1:]):
            anywhere = masks.longest(self._holders[tiers.GPU], blocks, places, size)
            return anywhere, anywhere
        within = [0] * len(blocks)
        held, worth = [0] * size, [0.0] * size
        for holders, weight in zip(self._holders, tiers.WEIGHTS, strict=True):
            if holders:
                within = list(map(or_, within, map(holders.get, blocks, repeat(0))))
                further = masks.counted(within, places, size)
                worth = [
                    known + weight * (more - count)
                    for known, more, count in zip(worth, further, held, strict=True)
                ]
                held = further
        return held, worth

    def validate(self) -> None:
        """Check the invariants; for tests."""
        bits = [account.bit for account in self._accounts.values()] + self._free_bits
        bits += [bit for bit, _ in self._retired]
        assert sorted(bits) == [1 << n for n in range(len(bits))]
        assert self.blocks_together == sum(account.held for account in self._accounts.values())
        expected = {(load, block) for _, load, blocks in self._expected for block in blocks}
        for load, account in self._accounts.items():
            account.validate()
            for tier, holders in enumerate(self._holders):
                marked = {block for block, mask in holders.items() if mask & account.bit} - {FRONT}
                told = {block for block in account.where if account.has(tier, block)}
                assert marked >= told
                assert all(tier == tiers.GPU and (load, block) in expected for block in marked - told)


def _chained(account: Account, event: kv_events.Stored, rank: int) -> list[int]:
    """The hashes of an event's blocks; none if it has names only, or if the blocks before it are unknown."""
    if not event.tokens:
        return []
    if not account.block_tokens:
        account.block_tokens = event.block_tokens
    if event.parent is None:
        before: int | None = front(event.adapter, event.block_tokens)
    else:
        before = account.named(rank, event.parent)
    if before is None:
        return []
    if event.extra:
        before = _digest(event.extra.encode("utf-8", "replace"), before)
    return chain(event.tokens, event.block_tokens, before)


def _unset(holders: dict[int, int], block: int, bit: int) -> None:
    left = holders.pop(block, 0) & ~bit
    if left:
        holders[block] = left
