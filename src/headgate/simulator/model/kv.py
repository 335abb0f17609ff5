"""KV cache blocks: which requests hold them, and which prompts are cached in them.

A block is in one of these states: empty; set apart for another use; held without a name (the unfinished end
of a request, a block without a hash, or a second copy of a named one); named by the hash of all tokens up to
its end, and held by one or more requests; or named and idle, that is, cached for later requests. The rules
are those of vLLM's prefix cache: full blocks only, of prompts and outputs; reference counts; idle blocks are
evicted least recently used first, the end of a request before its front.
"""

from collections import OrderedDict
from collections.abc import Sequence

from headgate.simulator.model.holding import Holding
from headgate.simulator.model.request import SimulatedRequest
from headgate.simulator.model.tiers import (
    CPU,
    DISK,
    GPU,
    REMOTE,
    AllBlocksCleared,
    Below,
    BlockRemoved,
    BlockStored,
    KvEvent,
    LowerTier,
    RemoteTier,
)


class KvBlocks:
    """The blocks of one engine. Blocks without a name are only counted, named ones are known by hash."""

    def __init__(
        self,
        total: int,
        block_size: int,
        *,
        named: bool = True,
        tells: bool = True,
        host_blocks: int = 0,
        disk_blocks: int = 0,
        remote: RemoteTier | None = None,
    ) -> None:
        self.total = total
        self.block_size = block_size
        self._named = named  # whether blocks are cached for reuse
        self._tells = tells  # whether events are recorded for `take_events`
        self._empty = total
        self.apart = 0
        """Blocks in use for something other than keys and values."""
        self._references: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()  # least recently used first
        self._unnamed = 0
        self.host = LowerTier(host_blocks)
        self.disk = LowerTier(disk_blocks)
        self.remote = remote
        self._computed: list[int] = []
        """Blocks named since `put_computed`, recorded if there is a store to put them in."""
        self._events: list[KvEvent] = []

    @property
    def free(self) -> int:
        """Blocks available for allocation, including idle ones."""
        return self._empty + len(self._idle)

    @property
    def empty(self) -> int:
        """Free blocks whose allocation evicts nothing."""
        return self._empty

    @property
    def used(self) -> int:
        return self.total - self.free

    @property
    def cached(self) -> int:
        """Blocks that can be found by a hash."""
        return len(self._references) + len(self._idle)

    @property
    def named_references(self) -> int:
        """Total references to named blocks."""
        return sum(self._references.values())

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def cached_blocks(self, hashes: Sequence[int], tokens: int) -> int:
        """How many blocks from the front of `tokens` tokens are cached.

        The last token is always computed, since its logits produce the first output token.
        """
        most = min(len(hashes), (tokens - 1) // self.block_size)
        references, idle = self._references, self._idle
        for found in range(most):
            if hashes[found] not in references and hashes[found] not in idle:
                return found
        return most

    def cached_tokens(self, request: SimulatedRequest) -> int:
        """How many tokens of a prompt that started now would be cached."""
        hashes = self._hashes(request, request.prompt_tokens)
        return self.block_size * self.cached_blocks(hashes, request.prompt_tokens)

    def _hashes(self, request: SimulatedRequest, tokens: int) -> Sequence[int]:
        """Hashes of the full blocks of the first `tokens` tokens, of the prompt and then of the output."""
        if not self._named:
            return ()
        of_prompt = request.prompt_tokens // self.block_size
        hashes = request.blocks[:of_prompt]
        full = min(tokens // self.block_size, self._nameable(request))
        if full > of_prompt:
            hashes = [*hashes, *(request.answer_blocks[at] for at in range(full - of_prompt))]
        return hashes

    def _nameable(self, request: SimulatedRequest) -> int:
        """How many blocks of a request have hashes; those of the output require all of the prompt's."""
        if not self._named:
            return 0
        of_prompt = request.prompt_tokens // self.block_size
        known = min(len(request.blocks), of_prompt)
        return known + len(request.answer_blocks) if known == of_prompt else known

    def start(self, request: SimulatedRequest, tokens: int) -> Holding | None:
        """Allocate blocks for the first `tokens` tokens of a request; None if too few are free."""
        hashes = self._hashes(request, tokens)
        blocks = self.blocks_for(tokens)
        if blocks - len(hashes) > self.free:
            return None
        found = self.cached_blocks(hashes, tokens)
        references, idle = self._references, self._idle
        revived = sum(1 for block in hashes[:found] if block in idle)
        if blocks - found > self.free - revived:
            return None
        # The lower tiers may have the blocks after those; as above, never the last token.
        below = self._below(hashes[found : (tokens - 1) // self.block_size])
        for block in hashes[:found]:
            if block in references:
                references[block] += 1
            else:
                del idle[block]
                references[block] = 1
        self._take(blocks - found)
        nameable = self._nameable(request)
        holding = Holding(request, hashes, nameable, blocks, self.block_size, found, below)
        self.name(holding, holding.cached_tokens)
        return holding

    def _below(self, hashes: Sequence[int]) -> Below:
        """How many blocks from the front are in each lower tier, counted in the first tier that has it."""
        in_host = self.host.use(hashes)
        if not self.disk.blocks and self.remote is None:
            return Below(in_host)
        on_disk = in_remote = 0
        for block in hashes[in_host:]:
            if self.host.use_one(block):
                in_host += 1
            elif self.disk.use_one(block):
                on_disk += 1
            elif self.remote is not None and self.remote.use_one(block):
                in_remote += 1
            else:
                break
        return Below(in_host, on_disk, in_remote)

    def grow(self, holding: Holding, tokens: int) -> bool:
        """Add blocks until `tokens` tokens fit; False, without a change, if there are too few."""
        if tokens <= holding.room:
            return True
        missing = self.blocks_for(tokens) - holding.blocks
        if missing > self.free:
            return False
        self._take(missing)
        holding.blocks += missing
        holding.room += missing * self.block_size
        return True

    def name(self, holding: Holding, tokens: int) -> None:
        """The first `tokens` tokens of a holding are computed: name its full blocks, so that they can be
        found.

        If a name is taken, because another request computed the same block at the same time, both keep their
        copies. A block is not named if the block before it has lost its name: lookups would never reach it.
        """
        if tokens < holding.names_at:
            return
        last = min(tokens // self.block_size, holding.nameable)
        first = holding.looked_at
        hashes = holding.hashes_of(last)
        holding.look_until(last)
        stored: list[int] = []
        for position in range(first, last):
            block = hashes[position]
            if self._is_named(block) or (position and not self._is_named(hashes[position - 1])):
                self._tell_stored(holding, stored, position)
                stored = []
                continue
            self._references[block] = 1
            self._unnamed -= 1
            holding.named.append(block)
            stored.append(block)
        self._tell_stored(holding, stored, last)

    def _is_named(self, block: int) -> bool:
        return block in self._references or block in self._idle

    def release(self, holding: Holding) -> None:
        """Release all blocks. Named ones stay cached until their memory is needed."""
        references, idle = self._references, self._idle
        for block in reversed(holding.named):
            left = references[block] - 1
            if left:
                references[block] = left
            else:
                del references[block]
                idle[block] = None
        unnamed = holding.blocks - len(holding.named)
        self._unnamed -= unnamed
        self._empty += unnamed

    def set_apart(self, blocks: int) -> bool:
        """Take blocks for something other than keys and values; False, unchanged, if too few are free."""
        if blocks > self.free:
            return False
        self._take(blocks)
        self._unnamed -= blocks
        self.apart += blocks
        return True

    def give_back(self, blocks: int) -> None:
        """Undo `set_apart` for this many blocks."""
        self.apart -= blocks
        self._empty += blocks

    def clear(self) -> bool:
        """Clear the cache; False, without a change, while any named block is held."""
        if self._references:
            return False
        self._empty += len(self._idle)
        self._idle.clear()
        self.host.clear()
        self.disk.clear()
        if self.remote is not None:
            self.remote = self.remote.begin_anew()
        if self._tells:
            self._events.append(AllBlocksCleared())
        return True

    def put_computed(self) -> None:
        """A step is over: put the blocks it computed into the store, for all engines."""
        if self.remote is None or not self._computed:
            return
        self._tell_removed(self.remote.take_dropped(), REMOTE)
        new = self.remote.put(self._computed)
        self._computed.clear()
        self._tell_moved(new, REMOTE)

    def take_events(self) -> tuple[KvEvent, ...]:
        """Events of stored and removed blocks since the last call, in order."""
        if self.remote is not None:
            self._tell_removed(self.remote.take_dropped(), REMOTE)
        events = tuple(self._events)
        self._events.clear()
        return events

    def validate(self) -> None:
        """Every block is empty, held without a name, held with a name, or idle; none is two of these."""
        sums = {
            "empty": self._empty,
            "apart": self.apart,
            "unnamed": self._unnamed,
            "held": len(self._references),
            "idle": len(self._idle),
        }
        assert sum(sums.values()) == self.total, f"{sums} do not add up to {self.total} blocks"
        assert min(sums.values()) >= 0, f"a negative count: {sums}"
        assert not self._references.keys() & self._idle.keys(), "a block is held and idle"
        assert len(self.host) <= self.host.blocks, (
            f"{len(self.host)} of {self.host.blocks} blocks in the host"
        )
        assert len(self.disk) <= self.disk.blocks, (
            f"{len(self.disk)} of {self.disk.blocks} blocks on the disk"
        )
        assert all(count > 0 for count in self._references.values()), "a held block without a holder"

    def _take(self, blocks: int) -> None:
        """Allocate unnamed blocks: empty ones first, then the least recently used."""
        self._unnamed += blocks
        empty = min(blocks, self._empty)
        self._empty -= empty
        if empty < blocks:
            idle = self._idle
            removed = [idle.popitem(last=False)[0] for _ in range(blocks - empty)]
            self._tell_removed(removed, GPU)
            if self.host.blocks:
                removed = self._move_down(removed, self.host, CPU)
            if self.disk.blocks:
                self._move_down(removed, self.disk, DISK)

    def _move_down(self, hashes: list[int], tier: LowerTier, medium: str) -> list[int]:
        """Move blocks to a lower tier; returns the blocks it evicted for them."""
        new, dropped = tier.store(hashes)
        self._tell_moved(new, medium)
        self._tell_removed(dropped, medium)
        return dropped

    def _tell_moved(self, hashes: list[int], medium: str) -> None:
        """Report blocks stored in a lower tier."""
        if hashes and self._tells:
            self._events.append(
                BlockStored(hashes=tuple(hashes), parent=None, block_size=self.block_size, medium=medium)
            )

    def _tell_removed(self, hashes: list[int], medium: str) -> None:
        if hashes and self._tells:
            self._events.append(BlockRemoved(hashes=tuple(hashes), medium=medium))

    def _tell_stored(self, holding: Holding, hashes: list[int], end: int) -> None:
        if self.remote is not None:
            self._computed += hashes
        if not hashes or not self._tells:
            return
        position = end - len(hashes)
        self._events.append(
            BlockStored(
                hashes=tuple(hashes),
                parent=holding.hashes[position - 1] if position else None,
                block_size=self.block_size,
                request_id=holding.request.request_id,
                position=position,
                adapter=holding.request.adapter,
            )
        )
