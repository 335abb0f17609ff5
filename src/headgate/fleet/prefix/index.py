"""The approximate prefix index: what endpoints hold, as far as it follows from what was sent to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from itertools import repeat
from operator import or_

from headgate.fleet.ledger import EndpointState
from headgate.fleet.prefix import masks
from headgate.fleet.prefix.exact import ExactIndex
from headgate.fleet.prefix.held import Held
from headgate.fleet.prefix.runs import Run, Runs

MAX_BLOCKS = 500_000
"""Of all endpoints together; each takes some 130 bytes of memory in runs of eight."""
ENDPOINT_BLOCKS = 4096
"""Of an endpoint whose engine does not say how large its cache is."""
TTL_S = 900.0
SWEPT_BLOCKS = 2000
"""About so many blocks leave in one sweep at most: it must not hold up requests."""
WHOLE_SHARE = 1 / 64
"""A run of no more than this share of the limit leaves as a whole: to cut it costs more than it saves."""


_Asked = tuple[list[EndpointState], masks.Places, int]
_NONE: _Asked = ([], {}, 0)


class PrefixIndex:
    """Which endpoints hold which runs of blocks, and for each endpoint which it used when.

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
        self._default_limit = default_limit
        self._runs = Runs(block_ends)
        self._held: dict[EndpointState, Held] = {}
        self._bits: dict[EndpointState, int] = {}
        self._free_bits: list[int] = []
        self._swept: list[Held] = []
        self._asked: dict[EndpointState, _Asked] = {}
        """Lists that were asked for, by their first endpoint: where in it each bit is, and all together."""
        self._count = 0
        """Blocks of all endpoints."""
        self._evicted = 0
        self._expired = 0
        self._forgotten = 0

    # -- what is believed

    def matched(self, prefix: Sequence[int], loads: Sequence[EndpointState]) -> list[int]:
        """How many blocks of a prompt, from its front, each of the endpoints is believed to hold."""
        if not prefix or not loads:
            return [0] * len(loads)
        counts = self._believed(prefix, loads)
        return counts if self.exact is None else self.exact.corrected(counts, prefix, loads)

    def weighed(self, prefix: Sequence[int], loads: Sequence[EndpointState]) -> list[float]:
        """The same, where a block that is held in slower memory than the accelerator's is a part of one."""
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
            count = run.answered  # the next turn has the answer in it
        counts: list[tuple[int, int]] = []
        while run is not None:  # who holds a run holds those before it: each is met first where it ends
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
        """Where in a list of endpoints each is, by its bit, and all bits together. A pool is mostly asked for
        whole: then, what was found before holds."""
        known, places, together = self._asked.get(loads[0], _NONE)
        if known != loads:
            bits = list(map(self._bits.get, loads, repeat(0)))
            places = {bit: place for place, bit in enumerate(bits) if bit}
            # Of one without a bit nothing is believed: then it is never so that all hold a run.
            together = reduce(or_, bits) if all(bits) else -1
            self._asked[loads[0]] = list(loads), places, together
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

    # -- what happens

    def add(self, prefix: Sequence[int], load: EndpointState, now: float) -> None:
        """Notes that a prompt was sent to an endpoint, at `now` in monotonic seconds."""
        if self.exact is not None:
            self.exact.expect(prefix, load, now)
        held = self._held.get(load)
        if held is None:
            held = self._begin(load)
        before = held.blocks
        held.use(self._ending(prefix, held), now)
        if held.blocks == before:
            return
        self._count += held.blocks - before
        if held.size > held.limit:
            self._evicted += self._keep_within(held, held.limit)
        while self._count > self.max_blocks:
            self._make_room()

    def answered(self, prefix: Sequence[int], load: EndpointState, blocks: float) -> None:
        """Notes that an endpoint has answered a prompt, which has so many blocks together with the answer.

        What it has generated is in its cache as well, and counts as held of a prompt that begins with this
        one and is at least that long: the next turn. One that is shorter is something else, or the answer was
        shortened in it, as those are of what a model thought. Where several prompts end with one block, or
        several endpoints hold it, it cannot be told which of them goes on, and nothing is noted.
        """
        held = self._held.get(load)
        if held is not None and prefix:
            self._runs.answer(prefix, held.bit, int(blocks))

    def _ending(self, prefix: Sequence[int], held: Held) -> Run:
        """The run that ends where a prompt ends. It is made if there is none, or cut from a longer one; and
        what nobody else holds, and nothing follows, grows, so that a conversation stays one run."""
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
        """Makes two of a run, for all of its holders."""
        front = self._runs.cut(run, count)
        for held in self._held.values():
            if held.bit & run.holders:
                held.used_at[front] = held.used_at[run]
        return front

    def limit(self, load: EndpointState, blocks: int) -> None:
        """Bounds an endpoint by the size of its engine's cache, in blocks, or in units where they differ."""
        held = self._held.get(load)
        if held is None:
            held = self._begin(load)
        if held.limit != blocks:
            held.limit = blocks
            self._evicted += self._keep_within(held, blocks)

    def forget(self, load: EndpointState) -> None:
        """The endpoint's cache is empty: its engine began anew."""
        held = self._held.get(load)
        if held is not None:
            self._forgotten += self._drop(held, held.blocks)

    def forget_until(self, at: float, load: EndpointState) -> None:
        """Forgets what an endpoint has not used since: if a block of `at` is gone, so are all older ones."""
        held = self._held.get(load)
        if held is not None:
            self._forgotten += self._drop(held, held.blocks, at)

    def remove(self, load: EndpointState) -> None:
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
            self._expired += self._drop(self._swept.pop(), SWEPT_BLOCKS, now - self.ttl_s)

    def _begin(self, load: EndpointState) -> Held:
        bit = self._free_bits.pop() if self._free_bits else 1 << len(self._held)
        held = self._held[load] = Held(bit, self._default_limit)
        self._bits[load] = bit
        self._asked.clear()
        return held

    # -- what leaves

    def _drop(self, held: Held, most: int, until: float = math.inf) -> int:
        """Lets runs go that were used at `until` or before, as many as have about `most` blocks; returns
        how many blocks went."""
        gone = 0
        while gone < most and (oldest := held.oldest()) is not None and oldest[0] <= until:
            gone += self._drop_oldest(held)
        return gone

    def _keep_within(self, held: Held, limit: int) -> int:
        """Lets an endpoint hold no more than a limit; returns how many blocks went."""
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

    def _make_room(self) -> None:
        """The endpoint with the most blocks gives up a part of them, so that this is rarely done."""
        held = max(self._held.values(), key=lambda held: held.blocks)
        self._evicted += self._keep_within(held, held.size - max(held.size // 64, 1))

    # -- what is told

    def statistics(self) -> dict[str, int]:
        return {
            "endpoints": len(self._held),
            "blocks": self._count,
            "distinct_blocks": len(self._runs),
            "evicted": self._evicted,
            "expired": self._expired,
            "forgotten": self._forgotten,
        }

    def blocks(self, load: EndpointState) -> int:
        """How many blocks an endpoint is believed to hold."""
        held = self._held.get(load)
        return 0 if held is None else held.blocks

    def limit_of(self, load: EndpointState) -> int:
        """How much it may be believed to hold, in blocks, or in units where they differ."""
        held = self._held.get(load)
        return self._default_limit if held is None else held.limit

    def oldest_at(self, load: EndpointState) -> float | None:
        """When the block that leaves next was used; None if it holds nothing."""
        held = self._held.get(load)
        oldest = held.oldest() if held is not None else None
        return None if oldest is None else oldest[0]

    def validate(self) -> None:
        """Checks the invariants; for tests."""
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
