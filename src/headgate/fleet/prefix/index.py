"""The approximate prefix index: what endpoints hold, as far as it follows from what was sent to them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, repeat

from headgate.fleet.ledger import EndpointLoad
from headgate.fleet.prefix import masks
from headgate.fleet.prefix.exact import ExactIndex
from headgate.fleet.prefix.held import Held

MAX_BLOCKS = 500_000
"""Of all endpoints together; each takes some 250 bytes of memory."""
ENDPOINT_BLOCKS = 8192
"""Of an endpoint whose engine does not say how large its cache is."""
TTL_S = 900.0
BATCHES_PER_TTL = 64
SWEPT_BLOCKS = 2000
"""So many blocks leave in one sweep at most: it must not hold up requests."""


_NONE: tuple[list[EndpointLoad], list[int]] = ([], [])


class PrefixIndex:
    """Block hash to a bitmask of the endpoints that hold the block, and for each endpoint which it used when.

    A hash stands for all of the prompt up to the end of its block, and for the model, so that the blocks of
    a prompt that an endpoint holds are always those at its front. Where blocks differ in length, limits are
    in units, as `block_ends` is; otherwise each block is one unit.

    Bounded: each endpoint by its limit, all together by `max_blocks`, in time by `ttl_s`.
    """

    def __init__(
        self,
        *,
        block_ends: Sequence[int] = (),
        max_blocks: int = MAX_BLOCKS,
        default_limit: int = ENDPOINT_BLOCKS,
        ttl_s: float = TTL_S,
    ) -> None:
        """`block_ends` is where the blocks of any prompt end, in units; none where each is one unit long."""
        self.max_blocks = max_blocks
        self.ttl_s = ttl_s
        self.exact: ExactIndex | None = None
        """What engines say that they hold, where they do; what is believed of the others is all there is."""
        self._sizes = tuple(b - a for a, b in pairwise((0, *block_ends)))
        self._default_limit = default_limit
        self._owners: dict[int, int] = {}
        self._held: dict[EndpointLoad, Held] = {}
        self._bits: dict[EndpointLoad, int] = {}
        self._free_bits: list[int] = []
        self._swept: list[Held] = []
        self._asked: dict[EndpointLoad, tuple[list[EndpointLoad], list[int]]] = {}
        """Lists that were asked for, with their bits, by their first endpoint."""
        self._count = 0
        self._evicted = 0
        self._expired = 0
        self._forgotten = 0

    def matched(self, prefix: Sequence[int], loads: Sequence[EndpointLoad]) -> list[int]:
        """How many blocks of a prompt, from its front, each of the endpoints is believed to hold."""
        if not prefix or not loads:
            return [0] * len(loads)
        if self.exact is None and prefix[0] not in self._owners:
            return [0] * len(loads)
        counts = masks.longest(self._owners, prefix, self._bits_of(loads))
        return counts if self.exact is None else self.exact.corrected(counts, prefix, loads)

    def weighed(self, prefix: Sequence[int], loads: Sequence[EndpointLoad]) -> list[float]:
        """The same, where a block that is held in slower memory than the accelerator's is a part of one."""
        if not prefix or not loads:
            return [0.0] * len(loads)
        counts = masks.longest(self._owners, prefix, self._bits_of(loads))
        return list(counts) if self.exact is None else self.exact.weighed(counts, prefix, loads)

    def _bits_of(self, loads: Sequence[EndpointLoad]) -> list[int]:
        """The bits of endpoints. A pool is mostly asked for whole: then, what was found before holds."""
        known, bits = self._asked.get(loads[0], _NONE)
        if known != loads:
            bits = list(map(self._bits.get, loads, repeat(0)))
            self._asked[loads[0]] = list(loads), bits
        return bits

    def add(self, prefix: Sequence[int], load: EndpointLoad, now: float) -> None:
        """Notes that a prompt was sent to an endpoint, at `now` in monotonic seconds."""
        if self.exact is not None:
            self.exact.expect(prefix, load, now)
        held = self._held.get(load)
        if held is None:
            held = self._begin(load)
        added = held.use(prefix, now)
        if not added:
            return
        self._count += len(added)
        self._own(added, held.bit)
        if held.size > held.limit:
            self._evicted += self._disown(held.keep_within(held.limit), held.bit)
        while self._count > self.max_blocks:
            self._make_room()

    def _own(self, blocks: Sequence[int], bit: int) -> None:
        """Sets the bit of blocks that follow one another in a prompt."""
        owners = self._owners
        for n, block in enumerate(blocks):
            others = owners.get(block)
            if others is None:  # nobody has it, and so nobody has what comes after it
                owners.update(dict.fromkeys(blocks[n:] if n else blocks, bit))
                return
            owners[block] = others | bit

    def _disown(self, blocks: list[int], bit: int) -> int:
        """Takes the bit off blocks; returns how many they are."""
        owners = self._owners
        for block in blocks:
            others = owners.pop(block, 0) & ~bit
            if others:
                owners[block] = others
        self._count -= len(blocks)
        return len(blocks)

    def limit(self, load: EndpointLoad, blocks: int) -> None:
        """Bounds an endpoint by the size of its engine's cache, in blocks, or in units where they differ."""
        held = self._held.get(load)
        if held is None:
            held = self._begin(load)
        if held.limit != blocks:
            held.limit = blocks
            self._evicted += self._disown(held.keep_within(blocks), held.bit)

    def used_at(self, prefix: Sequence[int], load: EndpointLoad) -> float | None:
        """About when an endpoint last used the end of what it holds of a prompt; None if it holds nothing.

        All before that was used no earlier.
        """
        held = self._held.get(load)
        count = held.count(prefix) if held is not None else 0
        return held.used_at(prefix[count - 1]) if held is not None and count else None

    def forget(self, load: EndpointLoad) -> None:
        """The endpoint's cache is empty: its engine began anew."""
        held = self._held.get(load)
        if held is not None:
            self._forgotten += self._disown(held.clear(), held.bit)

    def forget_until(self, at: float, load: EndpointLoad) -> None:
        """Forgets what an endpoint has not used since: if a block of `at` is gone, so are all older ones."""
        held = self._held.get(load)
        if held is not None:
            self._forgotten += self._disown(held.forget_until(at, most=len(held)), held.bit)

    def remove(self, load: EndpointLoad) -> None:
        """The endpoint is gone, and will be another one should it return."""
        self.forget(load)
        if self.exact is not None:
            self.exact.residency.end(load)
        self._asked.clear()  # it may have been asked about, though it never held anything
        held = self._held.pop(load, None)
        if held is not None:
            self._free_bits.append(held.bit)
            del self._bits[load]
            self._swept = []

    def sweep(self, now: float) -> None:
        """Lets blocks go that were not used for long: a bounded number of one endpoint; called now and then.

        Each call looks at another endpoint.
        """
        if self.exact is not None:
            self.exact.residency.sweep(now)
        if not self._swept:
            self._swept = list(self._held.values())
        if self._swept:
            held = self._swept.pop()
            oldest = now - self.ttl_s - self.ttl_s / BATCHES_PER_TTL
            self._expired += self._disown(held.forget_until(oldest, SWEPT_BLOCKS), held.bit)

    def statistics(self) -> dict[str, int]:
        return {
            "endpoints": len(self._held),
            "blocks": self._count,
            "distinct_blocks": len(self._owners),
            "evicted": self._evicted,
            "expired": self._expired,
            "forgotten": self._forgotten,
        }

    def blocks(self, load: EndpointLoad) -> int:
        """How many blocks an endpoint is believed to hold."""
        held = self._held.get(load)
        return 0 if held is None else len(held)

    def limit_of(self, load: EndpointLoad) -> int:
        """How much it may be believed to hold, in blocks, or in units where they differ."""
        held = self._held.get(load)
        return self._default_limit if held is None else held.limit

    def oldest_at(self, load: EndpointLoad) -> float | None:
        """About when the block that leaves next was used; None if it holds nothing."""
        held = self._held.get(load)
        return None if held is None else held.oldest_at

    def _begin(self, load: EndpointLoad) -> Held:
        bit = self._free_bits.pop() if self._free_bits else 1 << len(self._held)
        held = Held(bit, self._default_limit, self.ttl_s / BATCHES_PER_TTL, self._sizes)
        self._held[load] = held
        self._bits[load] = bit
        self._asked.clear()
        return held

    def _make_room(self) -> None:
        """The endpoint with the most blocks gives up a part of them, so that this is rarely done."""
        held = max(self._held.values(), key=len)
        gone = held.keep_within(held.size - max(held.size // 64, 1))
        self._evicted += self._disown(gone, held.bit)

    def validate(self) -> None:
        """Checks the invariants; for tests."""
        assert self._count == sum(map(len, self._held.values())) <= self.max_blocks
        bits = [held.bit for held in self._held.values()] + self._free_bits
        assert sorted(bits) == [1 << n for n in range(len(bits))]
        owners = dict.fromkeys(self._owners, 0)
        for load, held in self._held.items():
            assert self._bits[load] == held.bit
            held.validate()
            for block in held.blocks():
                owners[block] |= held.bit
        assert owners == self._owners
