"""The approximate prefix index: what endpoints hold, inferred from what was sent to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from itertools import repeat
from operator import or_
from typing import Final, Protocol

from headgate.fleet.ledger import EndpointState
from headgate.fleet.prefix import masks
from headgate.fleet.prefix.exact import ExactIndex
from headgate.fleet.prefix.held import Held
from headgate.fleet.prefix.runs import Run, Runs

MAX_BLOCKS = 500_000
"""Limit for all endpoints together; a block takes about 130 bytes of memory in runs of eight."""
ENDPOINT_BLOCKS: Final = 4096
"""Limit of an endpoint whose engine does not report the size of its cache."""
TTL_S: Final = 900.0
SWEPT_BLOCKS: Final = 2000
"""About this many blocks expire at most in one sweep, so that it does not delay requests."""
WHOLE_SHARE: Final = 1 / 64
"""A run of at most this share of the limit is evicted whole: cutting it costs more than it saves."""


_CachedList = tuple[list[EndpointState], masks.Places, int]
_NONE: Final[_CachedList] = ([], {}, 0)


class _Gone:
    """Blocks that left the index, by reason."""

    __slots__ = ("evicted", "expired", "forgotten")

    def __init__(self) -> None:
        self.evicted = 0
        self.expired = 0
        self.forgotten = 0


class Journal(Protocol):
    """Hears what this gateway records, for others."""

    def sent(self, prefix: Sequence[int], load: EndpointState) -> None: ...
    def responded(self, prefix: Sequence[int], load: EndpointState, blocks: int) -> None: ...


class PrefixIndex:
    """Which endpoints hold which runs of blocks, and when each was last used.

    A hash stands for the whole prompt up to the end of its block, and for the model, so an endpoint always
    holds the leading blocks of a prompt. If block lengths differ, limits are in units, like `block_ends`;
    otherwise each block is one unit.

    Bounded per endpoint by its limit, in total by `max_blocks`, and in time by `ttl_s`.
    """

    def __init__(
        self,
        *,
        block_ends: Sequence[int] = (),
        max_blocks: int = MAX_BLOCKS,
        default_limit: int = ENDPOINT_BLOCKS,
        ttl_s: float = TTL_S,
    ) -> None:
        """`block_ends`: where the blocks of any prompt end, in units; empty if each block is one unit
        long."""
        self.max_blocks = max_blocks
        self.ttl_s = ttl_s
        self.exact: ExactIndex | None = None
        """Corrections by engines that report their blocks; None if there are none."""
        self.journal: Journal | None = None
        """Told of each prompt and response; None if nobody else wants to know."""
        self._default_limit = default_limit
        self._runs = Runs(block_ends)
        self._held: dict[EndpointState, Held] = {}
        self._bits: dict[EndpointState, int] = {}
        self._free_bits: list[int] = []
        self._swept: list[Held] = []
        self._list_cache: dict[EndpointState, _CachedList] = {}
        """Lists of endpoints seen before, by their first endpoint: the position of each bit, and all bits
        together."""
        self._count = 0
        """Blocks of all endpoints."""
        self._gone = _Gone()

    # -- lookups

    def matched(self, prefix: Sequence[int], loads: Sequence[EndpointState]) -> list[int]:
        """How many leading blocks of a prompt each endpoint is believed to hold."""
        if not prefix or not loads:
            return [0] * len(loads)
        counts = self._believed(prefix, loads)
        return counts if self.exact is None else self.exact.corrected(counts, prefix, loads)

    def weighed(self, prefix: Sequence[int], loads: Sequence[EndpointState]) -> list[float]:
        """Like `matched`, where a block in slower memory than the accelerator's counts for less than one."""
        if not prefix or not loads:
            return [0.0] * len(loads)
        counts = self._believed(prefix, loads)
        return list(counts) if self.exact is None else self.exact.weighed(counts, prefix, loads)

    def _believed(self, prefix: Sequence[int], loads: Sequence[EndpointState]) -> list[int]:
        run, count = self._runs.find(prefix)
        if run is None:
            return [0] * len(loads)
        places, missing = self._places_of(loads)
        if count < run.answered <= len(prefix) and count == run.end and run.holders.bit_count() == 1:
            count = run.answered  # the next turn contains the response
        counts: list[tuple[int, int]] = []
        # an endpoint that holds a run holds those before it, so each is found first where its prefix ends
        while run is not None:
            found = run.holders & missing
            if found == missing:
                return masks.spread(counts, places, len(loads), count)
            if found:
                counts.append((found, count))
                missing ^= found
            count = run.start
            run = run.parent
        return masks.spread(counts, places, len(loads))

    def _places_of(self, loads: Sequence[EndpointState]) -> tuple[masks.Places, int]:
        """The position of each endpoint in a list, by its bit, and all bits together. Cached, because most
        lookups are for the whole pool."""
        known, places, together = self._list_cache.get(loads[0], _NONE)
        if known != loads:
            bits = list(map(self._bits.get, loads, repeat(0)))
            places = {bit: place for place, bit in enumerate(bits) if bit}
            # Nothing is known of an endpoint without a bit, so no run is held by all.
            together = reduce(or_, bits) if all(bits) else -1
            self._list_cache[loads[0]] = list(loads), places, together
        return places, together

    def used_at(self, prefix: Sequence[int], load: EndpointState) -> float | None:
        """When an endpoint last used the end of what it holds of a prompt; None if it holds nothing.

        All before that was used no earlier.
        """
        held = self._held.get(load)
        if held is None:
            return None
        run, _ = self._runs.find(prefix)
        while run is not None and not run.holders & held.bit:
            run = run.parent
        return None if run is None else held.used_at[run]

    # -- events

    def add(self, prefix: Sequence[int], load: EndpointState, now: float) -> None:
        """Record that a prompt was sent to an endpoint, at `now` in monotonic seconds."""
        if self.exact is not None:
            self.exact.expect(prefix, load, now)
        if self.journal is not None:
            self.journal.sent(prefix, load)
        self.add_reported(prefix, load, now)

    def add_reported(self, prefix: Sequence[int], load: EndpointState, now: float) -> None:
        """Record that another gateway sent a prompt to an endpoint."""
        held = self._held.get(load)
        if held is None:
            held = self._begin(load)
        before = held.blocks
        held.use(self._ending(prefix, held), now)
        if held.blocks == before:
            return
        self._count += held.blocks - before
        if held.size > held.limit:
            self._gone.evicted += self._keep_within(held, held.limit)
        while self._count > self.max_blocks:
            self._evict_largest()

    def responded(self, prefix: Sequence[int], load: EndpointState, blocks: float) -> None:
        """Record that an endpoint has responded; prompt and response together have `blocks`.

        The generated tokens are in its cache as well, and count as held of a prompt that begins with this one
        and is at least that long: the next turn. A shorter one is something else, or has a shortened
        response, such as one without its reasoning. If several prompts end with one block, or several
        endpoints hold it, the next turn is ambiguous, and nothing is recorded.
        """
        if prefix:
            self.responded_to(prefix[-1], len(prefix), load, int(blocks))
            if self.journal is not None:
                self.journal.responded(prefix, load, int(blocks))

    def responded_to(self, last: int, size: int, load: EndpointState, blocks: int) -> None:
        """Like `responded`, for a prompt of `size` blocks given by its last one."""
        held = self._held.get(load)
        if held is not None:
            self._runs.answer(last, size, held.bit, blocks)

    def _ending(self, prefix: Sequence[int], held: Held) -> Run:
        """The run that ends where a prompt ends: an existing one, one cut from a longer run, or a new one. A
        run that nothing follows and nobody else holds is extended, so that a conversation stays one run."""
        run, known = self._runs.find(prefix)
        if run is not None and known < run.start + len(run.blocks):
            run = self._cut(run, known - run.start)
        if known == len(prefix) and run is not None:
            return run
        blocks = list(prefix[known:] if known else prefix)
        if run is None or run.followers or run.holders != held.bit:
            return self._runs.append(run, known, blocks)
        held.size += self._runs.extend(run, blocks)
        held.blocks += len(blocks)
        return run

    def _cut(self, run: Run, count: int) -> Run:
        """Split a run for all of its holders."""
        front = self._runs.cut(run, count)
        for held in self._held.values():
            if held.bit & run.holders:
                held.used_at[front] = held.used_at[run]
        return front

    def limit(self, load: EndpointState, blocks: int) -> None:
        """Set an endpoint's limit to the size of its engine's cache, in blocks, or in units where lengths
        differ."""
        held = self._held.get(load)
        if held is None:
            held = self._begin(load)
        if held.limit != blocks:
            held.limit = blocks
            self._gone.evicted += self._keep_within(held, blocks)

    def forget(self, load: EndpointState) -> None:
        """Drop the blocks of an endpoint whose engine restarted, so that its cache is empty."""
        held = self._held.get(load)
        if held is not None:
            self._gone.forgotten += self._drop(held, held.blocks)

    def forget_until(self, at: float, load: EndpointState) -> None:
        """Forget what an endpoint last used at `at` or before: if a block of `at` is gone, so are all older
        ones."""
        held = self._held.get(load)
        if held is not None:
            self._gone.forgotten += self._drop(held, held.blocks, at)

    def remove(self, load: EndpointState) -> None:
        """Remove an endpoint; if it returns, it counts as new."""
        self.forget(load)
        if self.exact is not None:
            self.exact.residency.end(load)
        self._list_cache.clear()  # it may have been looked up, though it never held anything
        held = self._held.pop(load, None)
        if held is not None:
            self._free_bits.append(held.bit)
            del self._bits[load]
            self._swept = []

    def sweep(self, now: float) -> None:
        """Expire unused blocks of one endpoint, up to a bound. Call it regularly: each call takes another
        endpoint."""
        if self.exact is not None:
            self.exact.residency.sweep(now)
        if not self._swept:
            self._swept = list(self._held.values())
        if self._swept:
            self._gone.expired += self._drop(self._swept.pop(), SWEPT_BLOCKS, now - self.ttl_s)

    def _begin(self, load: EndpointState) -> Held:
        bit = self._free_bits.pop() if self._free_bits else 1 << len(self._held)
        held = self._held[load] = Held(bit, self._default_limit)
        self._bits[load] = bit
        self._list_cache.clear()
        return held

    # -- eviction

    def _drop(self, held: Held, most: int, until: float = math.inf) -> int:
        """Evict runs last used at `until` or before, about `most` blocks; returns how many blocks were
        evicted."""
        gone = 0
        while gone < most and (oldest := held.oldest()) is not None and oldest[0] <= until:
            gone += self._drop_oldest(held)
        return gone

    def _keep_within(self, held: Held, limit: int) -> int:
        """Evict until an endpoint is within a limit; returns how many blocks were evicted."""
        gone = 0
        while held.size > limit and (oldest := held.oldest()) is not None:
            _, run = oldest
            excess = held.size - limit
            if run.size > max(excess, held.limit * WHOLE_SHARE):
                leaving = self._runs.blocks_of(excess, run)
                if leaving < len(run.blocks):
                    self._cut(run, len(run.blocks) - leaving)
            gone += self._drop_oldest(held)
        return gone

    def _drop_oldest(self, held: Held) -> int:
        run = held.drop_oldest()
        if not run.holders:
            self._runs.remove(run)
        self._count -= len(run.blocks)
        return len(run.blocks)

    def _evict_largest(self) -> None:
        """Evict a part of the endpoint with the most blocks, enough that this happens rarely."""
        held = max(self._held.values(), key=lambda held: held.blocks)
        self._gone.evicted += self._keep_within(held, held.size - max(held.size // 64, 1))

    # -- statistics

    def statistics(self) -> dict[str, int]:
        return {
            "endpoints": len(self._held),
            "blocks": self._count,
            "distinct_blocks": len(self._runs),
            "evicted": self._gone.evicted,
            "expired": self._gone.expired,
            "forgotten": self._gone.forgotten,
        }

    def blocks(self, load: EndpointState) -> int:
        """How many blocks an endpoint is believed to hold."""
        held = self._held.get(load)
        return 0 if held is None else held.blocks

    def limit_of(self, load: EndpointState) -> int:
        """The limit of an endpoint, in blocks, or in units where lengths differ."""
        held = self._held.get(load)
        return self._default_limit if held is None else held.limit

    def oldest_at(self, load: EndpointState) -> float | None:
        """When the block to evict next was used; None if the endpoint holds nothing."""
        held = self._held.get(load)
        oldest = held.oldest() if held is not None else None
        return None if oldest is None else oldest[0]

    def validate(self) -> None:
        """Check the invariants; for tests."""
        assert self._count == sum(held.blocks for held in self._held.values()) <= self.max_blocks
        bits = [held.bit for held in self._held.values()] + self._free_bits
        assert sorted(bits) == [1 << n for n in range(len(bits))]
        self._runs.validate()
        for load, held in self._held.items():
            assert self._bits[load] == held.bit
            assert held.size <= held.limit
            held.validate()
        holders: dict[Run, int] = {}
        for held in self._held.values():
            for run in held.used_at:
                holders[run] = holders.get(run, 0) | held.bit
        assert all(run.holders == bits for run, bits in holders.items())
        assert sum(len(run.blocks) for run in holders) == len(self._runs)
