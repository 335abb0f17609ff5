"""The batch: admission, chunked prefill, growth, preemption."""

from bisect import bisect_right

from headgate.simulator.model.adapters import AdapterSlots
from headgate.simulator.model.config import EngineConfig
from headgate.simulator.model.holding import Holding
from headgate.simulator.model.kv import KvBlocks
from headgate.simulator.model.request import RequestId, SimulatedRequest
from headgate.simulator.model.sequence import Chunk, Sequence, Speculation, WaitingQueue, by_priority
from headgate.simulator.model.tiers import RemoteTier

STEPS_WITH_EVENTS = 8
"""Maximum steps with KV events taken at once: events are reported at the end, and must not be late."""


class StepWork:
    """The work of one step."""

    __slots__ = ("adapters_from_host", "adapters_loaded", "admitted", "chunks", "decoding", "preempted")

    def __init__(
        self,
        decoding: list[Sequence],
        chunks: list[Chunk],
        admitted: list[Sequence],
        preempted: list[Sequence],
        adapters_loaded: int,
        adapters_from_host: int,
    ) -> None:
        self.decoding = decoding
        self.chunks = chunks
        self.admitted = admitted
        self.preempted = preempted
        self.adapters_loaded = adapters_loaded
        """Not counting adapters loaded from host memory."""
        self.adapters_from_host = adapters_from_host


class Batch:
    """Running sequences, waiting sequences, and the memory that they compete for.

    Running sequences go first, oldest first; the rest of the prefill budget admits from the head of the
    queue. No request overtakes the head, except where its adapter can run and the head's cannot. A decoding
    sequence that finds no free block takes those of the newest sequence (by priority: of the one that would
    be scheduled last), which returns to the queue.
    """

    def __init__(self, config: EngineConfig, speculation: Speculation, remote: RemoteTier | None) -> None:
        self.config = config
        self._speculation = speculation
        self.kv = KvBlocks(
            config.kv_blocks,
            config.block_size,
            named=config.prefix_cache,
            tells=config.kv_events,
            host_blocks=config.host_kv_blocks,
            disk_blocks=config.disk_kv_blocks,
            remote=remote,
        )
        self.adapters = AdapterSlots(config.max_adapters, config.max_host_adapters)
        self.waiting = WaitingQueue(by_priority=config.by_priority)
        self.running: dict[RequestId, Sequence] = {}  # in the order of admission
        self.has_adapters = False
        """Whether any request ever used an adapter."""
        self._kept: dict[RequestId, Holding] = {}
        self._adapters_loaded = 0
        self._adapters_from_host = 0

    def add(self, sequence: Sequence) -> None:
        self.has_adapters |= bool(sequence.request.adapter)
        self.waiting.add(sequence)

    def remove(self, sequence: Sequence, *, may_keep: bool) -> None:
        """Remove an ended sequence. One that keeps its blocks holds them until `release_kept`."""
        if self.running.pop(sequence.id, None) is None:
            self.waiting.remove(sequence)
            return
        self.adapters.leave(sequence.request.adapter)
        holding = sequence.give_up_blocks()
        if may_keep and sequence.request.keeps_kv:
            self._kept[sequence.id] = holding
        else:
            self.kv.release(holding)

    def release_kept(self, request_id: RequestId) -> bool:
        """Free the kept blocks of an ended request; False if there are none."""
        holding = self._kept.pop(request_id, None)
        if holding is None:
            return False
        self.kv.release(holding)
        return True

    def next_step(self, now: float) -> StepWork:
        """Decide which sequences a step that begins now works on."""
        preempted = self._make_room_to_grow()
        decoding = [sequence for sequence in self.running.values() if sequence.decoding]
        # As in vLLM, a step that preempts admits no request.
        chunks, admitted = self._spend_prefill_budget(now, may_admit=not preempted)
        loaded, self._adapters_loaded = self._adapters_loaded, 0
        from_host, self._adapters_from_host = self._adapters_from_host, 0
        return StepWork(decoding, chunks, admitted, preempted, loaded, from_host)

    def may_start_before_others(self, request: SimulatedRequest) -> bool:
        """Whether a new request might start before those that wait."""
        return not len(self.waiting) or self.config.by_priority or self.has_adapters or bool(request.adapter)

    # -- equal steps

    def like_steps(self, work: StepWork, most: int) -> int:
        """How many steps with the same work follow each other, if no event intervenes.

        No request starts in them: either one prompt takes the whole budget, or the head of the queue has just
        found no slot or blocks, and neither is freed before a sequence ends.
        """
        if work.preempted or (work.decoding and self._speculation.draft_tokens):
            return 1
        if work.chunks:
            (sequence, tokens), *others = work.chunks
            if others or tokens < self.config.prefill_budget_tokens:
                return 1
            most = min(most, (sequence.prefill_target - sequence.computed) // tokens)
        if work.decoding:
            left = min(sequence.output_tokens - sequence.emitted for sequence in work.decoding)
            most = self._steps_with_room(work.decoding, min(most, left))
        if self.kv.remote is not None:
            # Computed blocks must be available to other engines as soon as the step ends.
            most = 1 if work.chunks else min(most, self._steps_to_a_name(work.decoding))
        if self.config.kv_events and (work.chunks or self._has_events(work.decoding, most)):
            most = min(most, STEPS_WITH_EVENTS)
        return most

    def _steps_to_a_name(self, decoding: list[Sequence]) -> int:
        """Tokens of each sequence until the next block gets a hash."""
        return min(each.holding.names_at - each.computed for each in decoding if each.holding is not None)

    def _has_events(self, decoding: list[Sequence], steps: int) -> bool:
        """Whether this many tokens of each sequence evict cached blocks or complete a block with a hash."""
        return not self._evicts_nothing(decoding, steps) or any(
            each.holding is not None and each.computed + steps >= each.holding.names_at for each in decoding
        )

    def _evicts_nothing(self, decoding: list[Sequence], steps: int) -> bool:
        """Whether empty blocks suffice for this many tokens of each sequence."""
        return len(decoding) * self.kv.blocks_for(steps) <= self.kv.empty

    def _steps_with_room(self, decoding: list[Sequence], most: int) -> int:
        """How many tokens each sequence may grow before blocks run out; at least 1, which is allocated."""
        size = self.config.block_size
        free = self.kv.free
        if len(decoding) * -(-most // size) <= free:
            return most
        spare = [sequence.room_left for sequence in decoding]

        def missing(steps: int) -> int:
            return sum(-(-(steps - room) // size) for room in spare if steps > room)

        return bisect_right(range(2, most + 1), free, key=missing) + 1

    # -- memory

    def _make_room_to_grow(self) -> list[Sequence]:
        """Allocate blocks for the next tokens of every decoding sequence, by preemption if needed."""
        preempted: list[Sequence] = []
        most = self._speculation.most_tokens if self._speculation.draft_tokens else _one
        short = [each for each in self.running.values() if each.decoding and each.room_left < most(each)]
        for sequence in short:
            while sequence.holding and not self.kv.grow(sequence.holding, sequence.computed + most(sequence)):
                preempted.append(self._preempt())
        return preempted

    def _preempt(self) -> Sequence:
        if self.config.by_priority:
            sequence = max(self.running.values(), key=by_priority)
        else:
            sequence = self.running[next(reversed(self.running))]
        del self.running[sequence.id]
        self.adapters.leave(sequence.request.adapter)
        self.kv.release(sequence.give_up_blocks())
        sequence.lose_cache()
        self.waiting.give_back(sequence)
        return sequence

    # -- prefill and admission

    def _spend_prefill_budget(self, now: float, *, may_admit: bool) -> tuple[list[Chunk], list[Sequence]]:
        budget = self.config.prefill_budget_tokens
        chunks: list[Chunk] = []
        admitted: list[Sequence] = []
        for sequence in self.running.values():
            if budget and not sequence.decoding:
                budget -= self._plan_chunk(sequence, budget, chunks)
        while budget and may_admit and (head := self._admit(now)):
            admitted.append(head)
            budget -= self._plan_chunk(head, budget, chunks)
        return chunks, admitted

    def _plan_chunk(self, sequence: Sequence, budget: int, chunks: list[Chunk]) -> int:
        """Prefill as much of a prompt as the budget allows; its full blocks can be found from now on."""
        tokens = min(budget, sequence.prefill_target - sequence.computed)
        chunks.append((sequence, tokens))
        assert sequence.holding is not None
        self.kv.name(sequence.holding, sequence.computed + tokens)
        return tokens

    def _admit(self, now: float) -> Sequence | None:
        """Admit the next request, if there is a slot, and memory for its adapter and prompt."""
        if not len(self.waiting) or len(self.running) >= self.config.max_num_seqs:
            return None
        head = self._next_in_line()
        if head is None or not self._load_adapter(head.request.adapter):
            return None
        holding = self.kv.start(head.request, head.prefill_target)
        if holding is None:
            return None
        self.waiting.remove(head)
        self.running[head.id] = head
        self.adapters.use(head.request.adapter)
        head.start(holding, now)
        return head

    def _next_in_line(self) -> Sequence | None:
        """The first waiting request whose adapter is or can be loaded."""
        return next((each for each in self.waiting if self.adapters.may_run(each.request.adapter)), None)

    def _load_adapter(self, adapter: str) -> bool:
        """Load an adapter, replacing an unused one if needed; False if memory does not suffice."""
        if self.adapters.is_loaded(adapter):
            return True
        blocks = self.config.adapter_kv_blocks
        if len(self.adapters.loaded) >= self.adapters.slots:
            spare = self.adapters.spare()
            assert spare is not None, "an adapter that may run has a place"
            self.adapters.unload(spare)
            self.kv.give_back(blocks)
        if not self.kv.set_apart(blocks):
            return False
        if self.adapters.load(adapter):
            self._adapters_from_host += 1
        else:
            self._adapters_loaded += 1
        return True

    def validate(self) -> None:
        """Check all invariants; AssertionError names the one that failed."""
        self.kv.validate()
        running = list(self.running.values())
        assert len(running) <= self.config.max_num_seqs, f"{len(running)} sequences run"
        if not (self.has_adapters or self.config.by_priority):
            orders = [sequence.order for sequence in (*running, *self.waiting)]
            assert orders == sorted(orders), f"a later request is ahead of an earlier one: {orders}"
        assert all(sequence.holding is None for sequence in self.waiting), "a waiting request holds blocks"
        holdings = [*(sequence.holding for sequence in running), *self._kept.values()]
        assert self.kv.named_references == sum(len(held.named) for held in holdings if held), (
            "named blocks and their holders do not agree"
        )
        assert self.kv.apart == len(self.adapters.loaded) * self.config.adapter_kv_blocks
        in_use = frozenset(sequence.request.adapter for sequence in running) - {""}
        assert self.adapters.in_use == in_use, f"adapters in use: {self.adapters.in_use}, not {in_use}"


def _one(sequence: Sequence) -> int:
    """Tokens per step without speculative decoding."""
    return 1
