"""Who holds how many blocks of the KV cache, and which prompts are still found in it.

A block is in one of these states: empty; set apart for something else; held without a name (the unfinished
end of a request, what has no hash, or a second copy of a named one); named by the hash of all tokens up to
its end, and held by one or more requests; or named and idle, that is, cached for whoever asks for it next.
The rules are those of vLLM's prefix cache: full blocks only, of prompts and of answers, reference counts, and
idle blocks are taken in the order of their last use, the end of a request before its front.
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
    """The blocks of one engine. Blocks without a name are counted, named ones are known by their hash."""

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
        self._named = named  # whether blocks are ever found again
        self._tells = tells  # whether events are kept for `take_events`
        self._empty = total
        self.apart = 0
        """Blocks that hold something else than keys and values."""
        self._references: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()  # least recently used first
        self._unnamed = 0
        self.host = LowerTier(host_blocks)
        self.disk = LowerTier(disk_blocks)
        self.remote = remote
        self._computed: list[int] = []
        """Blocks that were named since `put_computed`, kept where there is a store to put them in."""
        self._events: list[KvEvent] = []

    @property
    def free(self) -> int:
        """Blocks that whoever needs one gets: idle ones are free, their contents a bonus."""
        return self._empty + len(self._idle)

    @property
    def empty(self) -> int:
        """Free blocks in which nothing is lost if they are taken."""
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
        """How often named blocks are held: once for each holder of each."""
        return sum(self._references.values())

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def cached_blocks(self, hashes: Sequence[int], tokens: int) -> int:
        """How many blocks from the front of `tokens` tokens are cached.

        The last token is always computed, since its logits are what the first output token comes from.
        """
        most = min(len(hashes), (tokens - 1) // self.block_size)
        references, idle = self._references, self._idle
        for found in range(most):
            if hashes[found] not in references and hashes[found] not in idle:
                return found
        return most

    def cached_tokens(self, request: SimulatedRequest) -> int:
        """How many tokens of a prompt that started now would be found."""
        hashes = self._hashes(request, request.prompt_tokens)
        return self.block_size * self.cached_blocks(hashes, request.prompt_tokens)

    def _hashes(self, request: SimulatedRequest, tokens: int) -> Sequence[int]:
        """Of the full blocks of the first `tokens` tokens: the prompt, or what was generated too."""
        if not self._named:
            return ()
        of_prompt = request.prompt_tokens // self.block_size
        hashes = request.blocks[:of_prompt]
        full = min(tokens // self.block_size, self._nameable(request))
        if full > of_prompt:
            hashes = [*hashes, *(request.answer_blocks[at] for at in range(full - of_prompt))]
        return hashes

    def _nameable(self, request: SimulatedRequest) -> int:
        """How many blocks of a request have hashes; an answer's are chained to all of the prompt's."""
        if not self._named:
            return 0
        of_prompt = request.prompt_tokens // self.block_size
        known = min(len(request.blocks), of_prompt)
        return known + len(request.answer_blocks) if known == of_prompt else known

    def start(self, request: SimulatedRequest, tokens: int) -> Holding | None:
        """Blocks for the first `tokens` tokens of a request; None, and no change, if there are not enough."""
        hashes = self._hashes(request, tokens)
        blocks = self.blocks_for(tokens)
        if blocks - len(hashes) > self.free:
            return None
        found = self.cached_blocks(hashes, tokens)
        references, idle = self._references, self._idle
        revived = sum(1 for block in hashes[:found] if block in idle)
        if blocks - found > self.free - revived:
            return None
        # From where the accelerator has no more, the others may: as with the former, never the last token.
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
        """How many blocks from the front are in each of the tiers below: in the first that has it."""
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
        """Add blocks until `tokens` tokens fit; False, and no change, if there are not enough."""
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
        """The first `tokens` tokens of a holding are computed: its full blocks can be found.

        Where a name is taken, because another request computed the same at the same time, both keep theirs. A
        block has no name where that before it has lost its own: nobody would come so far.
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
        """Give everything back. What has a name stays findable until its block is needed."""
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
        """Take blocks for something else than keys and values; False, and no change, if too few are free."""
        if blocks > self.free:
            return False
        self._take(blocks)
        self._unnamed -= blocks
        self.apart += blocks
        return True

    def give_back(self, blocks: int) -> None:
        """End `set_apart` for so many blocks."""
        self.apart -= blocks
        self._empty += blocks

    def clear(self) -> bool:
        """Forget what is cached; False, and no change, while any named block is held."""
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
        """A step is over: the blocks that it computed are in the store from now on, for all engines."""
        if self.remote is None or not self._computed:
            return
        self._tell_removed(self.remote.take_dropped(), REMOTE)
        new = self.remote.put(self._computed)
        self._computed.clear()
        self._tell_moved(new, REMOTE)

    def take_events(self) -> tuple[KvEvent, ...]:
        """What was stored and removed since the last call, in order."""
        if self.remote is not None:
            self._tell_removed(self.remote.take_dropped(), REMOTE)
        events = tuple(self._events)
        self._events.clear()
        return events

    def validate(self) -> None:
        """Every block is empty, held without a name, held with a name, or idle; and nothing is both."""
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
        """Make blocks unnamed: empty ones first, then what was used least recently."""
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
        """Gives what the tier had to drop for them."""
        new, dropped = tier.store(hashes)
        self._tell_moved(new, medium)
        self._tell_removed(dropped, medium)
        return dropped

    def _tell_moved(self, hashes: list[int], medium: str) -> None:
        """They are in a tier below, too."""
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
