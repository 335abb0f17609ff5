"""What engines say that they hold: blocks of tokens, by hashes of our own.

An engine's own hashes are not made the same way everywhere. Each block that it tells of is given a hash of
its tokens and of all before them, so that equal prompts on two engines have equal hashes.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Sequence

import xxhash

from headgate.fleet.ledger import EndpointLoad
from headgate.fleet.prefix import kv_events, masks
from headgate.fleet.prefix.kv_events import EngineHash

MAX_BLOCKS = 500_000
"""Of one engine's rank; an engine that tells of more is not kept account of."""
LOWER_TIER_WEIGHT = 0.8
"""What a block is worth that is held outside of the accelerator's memory."""
EXPECTED_S = 5.0
"""How long what was just sent counts as held before the engine has said so."""

FRONT = 0
"""Stands for the beginning of every prompt: all hold it."""

_digest = xxhash.xxh3_64_intdigest


def front(adapter: str, block_tokens: int) -> int:
    """What the first block of a prompt is chained to."""
    return _digest(adapter.encode(), block_tokens)


def chain(tokens: array[int], block_tokens: int, before: int) -> list[int]:
    """The hashes of the whole blocks of tokens, each chained to the one before it."""
    data, width = tokens.tobytes(), tokens.itemsize * block_tokens
    whole = len(data) - len(data) % width
    return [before := _digest(data[at : at + width], before) for at in range(0, whole, width)]


class TooManyBlocksError(ValueError):
    """An engine tells of more blocks than any cache has."""


class Account:
    """What the ranks of one engine hold. `places` maps rank, tier and the engine's hash to our own."""

    def __init__(self, bit: int) -> None:
        self.bit = bit
        self.block_tokens = 0
        self.is_complete = False
        self.places: dict[tuple[int, bool], dict[EngineHash, int]] = {}
        self.holders: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
        """Of each block, how many ranks hold it: on the accelerator, and anywhere."""


class Residency:
    """Block hash to a bitmask of the engines that say that they hold it, on the accelerator and anywhere."""

    def __init__(self) -> None:
        self._accounts: dict[EndpointLoad, Account] = {}
        self._free_bits: list[int] = []
        self._on_gpu: dict[int, int] = {FRONT: -1}
        self._anywhere: dict[int, int] = {FRONT: -1}
        self._lower_tier_blocks = 0
        """Places outside of the accelerator's memory, of all engines."""
        self._expected: deque[tuple[float, EndpointLoad, list[int]]] = deque()
        self.unplaced = 0
        """Blocks whose beginning was never told of."""

    def __contains__(self, load: EndpointLoad) -> bool:
        return load in self._accounts

    def loads(self) -> list[EndpointLoad]:
        return list(self._accounts)

    def begin(self, load: EndpointLoad) -> None:
        """Keeps account of an engine from now on, with nothing in its cache as yet."""
        self.end(load)
        bit = self._free_bits.pop() if self._free_bits else 1 << len(self._accounts)
        self._accounts[load] = Account(bit)

    def end(self, load: EndpointLoad) -> None:
        """Keeps no account of an engine any more."""
        account = self._accounts.get(load)
        if account is not None:
            self._clear(account)
            self._free_bits.append(account.bit)
            del self._accounts[load]

    def set_complete(self, load: EndpointLoad, is_complete: bool) -> None:
        """Whether all that the engine holds was told of; otherwise it may hold more."""
        self._accounts[load].is_complete = is_complete

    def is_complete(self, load: EndpointLoad) -> bool:
        account = self._accounts.get(load)
        return account is not None and account.is_complete

    def block_tokens(self, load: EndpointLoad) -> int:
        """How many tokens its blocks have; 0 until it has told of one."""
        account = self._accounts.get(load)
        return 0 if account is None else account.block_tokens

    def blocks(self, load: EndpointLoad) -> int:
        """How many different blocks an engine says that it holds."""
        account = self._accounts.get(load)
        return 0 if account is None else len(account.holders[1])

    def apply(self, load: EndpointLoad, event: kv_events.Event, rank: int = 0) -> None:
        """Takes what an engine of which account is kept has told. Raises TooManyBlocksError."""
        account = self._accounts[load]
        match event:
            case kv_events.Stored():
                self._store(account, event, rank)
            case kv_events.Removed():
                self._remove(account, event, rank)
            case kv_events.Cleared():
                self.clear_rank(load, rank)

    def clear_rank(self, load: EndpointLoad, rank: int) -> None:
        """One rank holds nothing any more."""
        account = self._accounts[load]
        for is_gpu in (True, False):
            for block in account.places.pop((rank, is_gpu), {}).values():
                self._drop(account, block, is_gpu)

    def _store(self, account: Account, event: kv_events.Stored, rank: int) -> None:
        if not account.block_tokens:
            account.block_tokens = event.block_tokens
        if event.parent is None:
            before: int | None = front(event.adapter, event.block_tokens)
        else:
            before = self._place(account, rank, event.parent)
        if before is None:
            self.unplaced += len(event.hashes)
            return
        if event.extra:
            before = _digest(event.extra.encode("utf-8", "replace"), before)
        is_gpu = event.medium == kv_events.GPU
        places = account.places.setdefault((rank, is_gpu), {})
        if len(places) + len(event.hashes) > MAX_BLOCKS:
            raise TooManyBlocksError(f"the engine tells of more than {MAX_BLOCKS} blocks")
        for told, block in zip(event.hashes, chain(event.tokens, event.block_tokens, before), strict=True):
            if told not in places:
                places[told] = block
                self._hold(account, block, is_gpu)

    def _place(self, account: Account, rank: int, told: EngineHash) -> int | None:
        for is_gpu in (True, False):
            block = account.places.get((rank, is_gpu), {}).get(told)
            if block is not None:
                return block
        return None

    def _remove(self, account: Account, event: kv_events.Removed, rank: int) -> None:
        is_gpu = event.medium == kv_events.GPU
        places = account.places.get((rank, is_gpu), {})
        for told in event.hashes:
            block = places.pop(told, None)
            if block is not None:
                self._drop(account, block, is_gpu)

    def _hold(self, account: Account, block: int, is_gpu: bool) -> None:
        on_gpu, anywhere = account.holders
        if is_gpu:
            on_gpu[block] += 1
            self._on_gpu[block] = self._on_gpu.get(block, 0) | account.bit
        else:
            self._lower_tier_blocks += 1
        anywhere[block] += 1
        self._anywhere[block] = self._anywhere.get(block, 0) | account.bit

    def _drop(self, account: Account, block: int, is_gpu: bool) -> None:
        on_gpu, anywhere = account.holders
        if not is_gpu:
            self._lower_tier_blocks -= 1
        elif _less(on_gpu, block):
            _unset(self._on_gpu, block, account.bit)
        if _less(anywhere, block):
            _unset(self._anywhere, block, account.bit)

    def _clear(self, account: Account) -> None:
        for block in account.holders[0]:
            _unset(self._on_gpu, block, account.bit)
        for block in account.holders[1]:
            _unset(self._anywhere, block, account.bit)
        # What was expected of it leaves its bit, which may be another engine's soon.
        for _, load, blocks in self._expected:
            if self._accounts.get(load) is account:
                for block in blocks:
                    _unset(self._on_gpu, block, account.bit)
                    _unset(self._anywhere, block, account.bit)
        self._lower_tier_blocks -= sum(
            len(places) for (_, is_gpu), places in account.places.items() if not is_gpu
        )
        account.holders = (Counter(), Counter())
        account.places.clear()

    def expect(self, load: EndpointLoad, blocks: Sequence[int], now: float) -> None:
        """A prompt was sent to an engine: its blocks count as held until that must have been told."""
        account = self._accounts.get(load)
        if account is None:
            return
        missing = [block for block in blocks if block not in account.holders[0] and block != FRONT]
        if not missing:
            return
        for block in missing:
            self._on_gpu[block] = self._on_gpu.get(block, 0) | account.bit
            self._anywhere[block] = self._anywhere.get(block, 0) | account.bit
        self._expected.append((now + EXPECTED_S, load, missing))

    def sweep(self, now: float) -> None:
        """What was expected and has not been told of is not held; called now and then."""
        while self._expected and self._expected[0][0] <= now:
            _, load, blocks = self._expected.popleft()
            account = self._accounts.get(load)
            if account is None:
                continue
            for block in blocks:
                if block not in account.holders[0]:
                    _unset(self._on_gpu, block, account.bit)
                if block not in account.holders[1]:
                    _unset(self._anywhere, block, account.bit)

    def held(self, blocks: Sequence[int], accounts: Sequence[Account | None]) -> tuple[list[int], list[int]]:
        """Of blocks that follow one another from the front of a prompt: how many each engine holds, and how
        many on the accelerator. Nothing for those of which no account is kept."""
        bits = [account.bit if account is not None else 0 for account in accounts]
        anywhere = masks.longest(self._anywhere, blocks, bits)
        if not self._lower_tier_blocks:
            return anywhere, anywhere
        return anywhere, masks.longest(self._on_gpu, blocks, bits)

    def accounts(self, loads: Sequence[EndpointLoad]) -> list[Account | None]:
        """Those of engines, None where none is kept."""
        return list(map(self._accounts.get, loads))

    def validate(self) -> None:
        """Checks the invariants; for tests."""
        bits = [account.bit for account in self._accounts.values()] + self._free_bits
        assert sorted(bits) == [1 << n for n in range(len(bits))]
        assert self._lower_tier_blocks == sum(
            len(places)
            for account in self._accounts.values()
            for (_, is_gpu), places in account.places.items()
            if not is_gpu
        )
        expected = {(load, block) for _, load, blocks in self._expected for block in blocks}
        for load, account in self._accounts.items():
            told: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
            for (_, is_gpu), places in account.places.items():
                told[1].update(places.values())
                if is_gpu:
                    told[0].update(places.values())
            assert told == account.holders
            for owners, holders in zip((self._on_gpu, self._anywhere), told, strict=True):
                marked = {block for block, mask in owners.items() if mask & account.bit} - {FRONT}
                assert marked >= set(holders)
                assert all((load, block) in expected for block in marked - set(holders))


def _less(holders: Counter[int], block: int) -> bool:
    """Takes one holder off; says whether none is left."""
    holders[block] -= 1
    if holders[block] > 0:
        return False
    del holders[block]
    return True


def _unset(owners: dict[int, int], block: int, bit: int) -> None:
    left = owners.pop(block, 0) & ~bit
    if left:
        owners[block] = left
