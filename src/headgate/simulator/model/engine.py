"""The engine: a waiting queue, a running batch, and steps that move tokens.

Steps come in two halves, because a step takes time and the world goes on meanwhile: `begin_step` settles who
is in the batch and for how long, `finish_step` hands out the tokens. In between requests may be submitted
(they wait for the next step) and cancelled (they get nothing more). `step` is both halves for callers
without such events.

Callers in virtual time take like steps in one go: steps in which the same sequences decode and the same
prompt is prefilled, until one of them ends. Whatever happens meanwhile cuts them at the step under way then
(`settle`), so that all times are those of single steps, to the last bit.
"""

from bisect import bisect_right
from collections import deque

from headgate.simulator.model.config import EngineConfig
from headgate.simulator.model.kv import KvBlocks
from headgate.simulator.model.kv_events import KvEvent
from headgate.simulator.model.request import (
    FinishedRequest,
    FinishReason,
    QueueFullError,
    RequestId,
    RequestTooLongError,
    SimulatedRequest,
    StepOutcome,
    StepPlan,
)
from headgate.simulator.model.sequence import Sequence
from headgate.simulator.model.statistics import EngineStatistics
from headgate.simulator.model.steps import Steps


class Engine:
    """Continuous batching after vLLM's scheduler: FIFO admission, chunked prefill, preemption by recompute.

    Running sequences come first, oldest first; what is left of the prefill budget admits from the head of the
    queue, and nobody overtakes the head. A decoding sequence that finds no free block takes those of the
    newest sequence, which goes back to the head of the queue.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self._kv = KvBlocks(
            config.kv_blocks, config.block_size, named=config.prefix_cache, tells=config.kv_events
        )
        self._waiting: deque[Sequence] = deque()
        self._running: dict[RequestId, Sequence] = {}  # oldest first
        self._known: dict[RequestId, Sequence] = {}
        self._step: Steps | None = None
        self._submitted = 0
        self._finished = 0
        self._refused = 0
        self._preempted = 0
        self._steps = 0
        self._busy_s = 0.0
        self._prefill_tokens = 0
        self._output_tokens = 0
        self._prefix_queries = 0
        self._prefix_hits = 0

    def submit(self, request: SimulatedRequest, now: float) -> None:
        """Put a request at the end of the queue; `RefusedError` if it is too long or the queue is full."""
        if request.request_id in self._known:
            raise ValueError(f"request {request.request_id}: is in the engine already")
        try:
            self._check_limits(request)
        except (QueueFullError, RequestTooLongError):
            self._refused += 1
            raise
        if not self._nobody_can_start():
            self.settle(now)
        sequence = Sequence(request, self._submitted, now)
        self._submitted += 1
        self._known[sequence.id] = sequence
        self._waiting.append(sequence)

    def cancel(self, request_id: RequestId, now: float) -> FinishedRequest | None:
        """End a request wherever it is; None if it is not in the engine (any more)."""
        sequence = self._known.get(request_id)
        if sequence is None:
            return None
        self.settle(now)
        if request_id not in self._running:
            self._waiting.remove(sequence)
        return self._end(sequence, "abort", now)

    def begin_step(self, now: float, *, most: int = 1) -> StepPlan | None:
        """Settle the next batch; None if there is nothing to do, and then there is no step to finish.

        Up to `most` like steps are begun together. `step_ends_s` says when the last of them ends, and
        changes when they are cut.
        """
        assert self._step is None, "the step under way must be finished first"
        preempted = self._make_room_to_grow()
        decoding = [sequence for sequence in self._running.values() if sequence.decoding]
        # As in vLLM, a step that had to preempt admits nobody.
        chunks, admitted = self._spend_prefill_budget(now, may_admit=not preempted)
        if not decoding and not chunks:
            return None
        steps = 1 if preempted or most == 1 else self._like_steps(decoding, chunks, most)
        self._step = Steps(self.config.costs, now, decoding, chunks, admitted, preempted, steps)
        return self._step.plan

    @property
    def step_ends_s(self) -> float | None:
        """When the step under way ends, or the last of several; None between steps."""
        return None if self._step is None else self._step.plan.ends_s

    def settle(self, now: float) -> None:
        """Bring the accounts to `now`: steps that ended before are accounted, later ones not begun.

        For whoever is about to read or change the engine while several steps are under way; their outcome
        still comes from `finish_step`.
        """
        if self._step is not None and self._step.plan.steps > 1:
            self._account(self._step, self._step.cut(now))

    def finish_step(self) -> StepOutcome:
        """End the step under way at the time its plan gave, and hand out its tokens."""
        step = self._step
        assert step is not None, "no step is under way"
        self._account(step, step.plan.steps - 1)
        self._step = None
        ends_s = step.plan.ends_s
        self._count(step, 1)
        finished: list[FinishedRequest] = []
        for sequence, tokens in [*((sequence, 1) for sequence in step.decoding), *step.chunks]:
            if sequence.ended:
                continue
            sequence.computed += tokens
            if sequence.decoding:
                step.emitted.append(sequence.emit(ends_s))
                self._output_tokens += 1
            if sequence.emitted == sequence.request.output_tokens:
                finished.append(self._end(sequence, sequence.request.finish_reason, ends_s))
        return StepOutcome(plan=step.plan, emitted=tuple(step.emitted), finished=tuple(finished))

    def step(self, now: float) -> StepOutcome | None:
        """One whole step that begins `now` and ends `duration_s` later; None if there is nothing to do."""
        return None if self.begin_step(now) is None else self.finish_step()

    def take_kv_events(self) -> tuple[KvEvent, ...]:
        """What the prefix cache stored and removed since the last call, in order, if the config has events.

        As in vLLM, blocks are stored as the step that computes them begins.
        """
        return self._kv.take_events()

    def clear_prefix_cache(self) -> bool:
        """Forget all cached blocks; False, and no change, while requests hold some."""
        return self._kv.clear()

    def statistics(self) -> EngineStatistics:
        """How things stand; with several steps under way, as of the last `settle`."""
        return EngineStatistics(
            running=len(self._running),
            waiting=len(self._waiting),
            kv_blocks=self._kv.total,
            kv_blocks_used=self._kv.used,
            kv_blocks_cached=self._kv.cached,
            submitted_total=self._submitted,
            finished_total=self._finished,
            refused_total=self._refused,
            preempted_total=self._preempted,
            steps_total=self._steps,
            busy_s_total=self._busy_s,
            prefill_tokens_total=self._prefill_tokens,
            output_tokens_total=self._output_tokens,
            prefix_queries_total=self._prefix_queries,
            prefix_hits_total=self._prefix_hits,
        )

    def validate(self) -> None:
        """Recheck every invariant; AssertionError says which one broke."""
        self._kv.validate()
        running = list(self._running.values())
        assert len(running) <= self.config.max_num_seqs, f"{len(running)} sequences run"
        orders = [sequence.order for sequence in (*running, *self._waiting)]
        assert orders == sorted(orders), f"a later request is ahead of an earlier one: {orders}"
        assert set(self._known) == {sequence.id for sequence in (*running, *self._waiting)}
        assert self._submitted == self._finished + len(self._known), "a request got lost or ended twice"
        for sequence in running:
            covered = max(sequence.prefill_target, sequence.computed)
            held = sequence.holding.blocks if sequence.holding else 0
            growing = self._step is not None and sequence.decoding
            allowed = {self._kv.blocks_for(covered), self._kv.blocks_for(covered + growing)}
            assert held in allowed, f"{sequence.id} holds {held} blocks for {covered} tokens"
        assert all(sequence.holding is None for sequence in self._waiting), "a waiting request holds blocks"
        assert self._kv.named_references == sum(
            len(sequence.holding.named) for sequence in running if sequence.holding
        ), "named blocks and their holders do not agree"

    def _nobody_can_start(self) -> bool:
        """Whether a request that comes now changes nothing before the steps under way end."""
        step = self._step
        return step is not None and (bool(self._waiting) or step.prefills_all_it_can)

    def _like_steps(self, decoding: list[Sequence], chunks: list[tuple[Sequence, int]], most: int) -> int:
        """How many steps like the one described follow each other, if nothing comes in between.

        Nobody starts in them: either one prompt takes the whole budget, or the head of the queue has just
        found no place or blocks, and there will not be more of them before a sequence ends.
        """
        if chunks:
            (sequence, tokens), *others = chunks
            if others or tokens < self.config.prefill_budget_tokens:
                return 1
            most = min(most, (sequence.prefill_target - sequence.computed) // tokens)
        if decoding:
            most = min(most, min(sequence.request.output_tokens - sequence.emitted for sequence in decoding))
            most = self._steps_with_room(decoding, most)
        return most

    def _steps_with_room(self, decoding: list[Sequence], most: int) -> int:
        """How many tokens each of them may grow by before blocks run out; at least 1, which is taken."""
        size = self.config.block_size
        free = self._kv.free
        if len(decoding) * -(-most // size) <= free:
            return most
        spare = [sequence.room_left for sequence in decoding]

        def missing(steps: int) -> int:
            return sum(-(-(steps - room) // size) for room in spare if steps > room)

        return bisect_right(range(2, most + 1), free, key=missing) + 1

    def _account(self, step: Steps, until: int) -> None:
        """The steps before number `until` are over, and that one is under way."""
        steps = until - step.done
        if steps <= 0:
            return
        self._count(step, steps)
        now = step.end_of(until - 1)
        for sequence in step.decoding:
            sequence.computed += steps
            step.emitted.append(sequence.emit(now, steps))
            if sequence.room_left < 1:
                assert sequence.holding is not None
                has_room = self._kv.grow(sequence.holding, sequence.computed + 1)
                assert has_room, "more like steps were begun than there are blocks"
        self._output_tokens += steps * len(step.decoding)
        for sequence, tokens in step.chunks:
            sequence.computed += steps * tokens
            assert sequence.holding is not None
            self._kv.name(sequence.holding, sequence.computed + tokens)
        step.done = until

    def _count(self, step: Steps, steps: int) -> None:
        self._steps += steps
        self._busy_s += step.end_of(step.done + steps - 1) - step.end_of(step.done - 1)
        self._prefill_tokens += steps * step.plan.prefill_tokens

    def _check_limits(self, request: SimulatedRequest) -> None:
        config = self.config
        if request.prompt_tokens + request.output_tokens > config.max_model_len:
            raise RequestTooLongError(request.prompt_tokens, request.output_tokens, config.max_model_len)
        limit = config.max_num_seqs + config.max_waiting
        if len(self._known) >= limit:
            raise QueueFullError(limit)

    def _make_room_to_grow(self) -> list[RequestId]:
        """A block for the next token of every decoding sequence, from the newest sequences if need be."""
        preempted: list[RequestId] = []
        short = [
            sequence for sequence in self._running.values() if sequence.decoding and not sequence.room_left
        ]
        for sequence in short:
            while sequence.holding and not self._kv.grow(sequence.holding, sequence.computed + 1):
                newest = self._running[next(reversed(self._running))]
                self._preempt(newest)
                preempted.append(newest.id)
        return preempted

    def _preempt(self, sequence: Sequence) -> None:
        del self._running[sequence.id]
        self._give_back(sequence)
        sequence.lose_cache()  # no longer decoding: that ends the search for a block if it was the seeker
        self._waiting.appendleft(sequence)
        self._preempted += 1

    def _spend_prefill_budget(
        self, now: float, *, may_admit: bool
    ) -> tuple[list[tuple[Sequence, int]], list[Sequence]]:
        budget = self.config.prefill_budget_tokens
        chunks: list[tuple[Sequence, int]] = []
        admitted: list[Sequence] = []
        for sequence in self._running.values():
            if budget and not sequence.decoding:
                budget -= self._plan_chunk(sequence, budget, chunks)
        while budget and may_admit and (head := self._admit_head(now)):
            admitted.append(head)
            budget -= self._plan_chunk(head, budget, chunks)
        return chunks, admitted

    def _plan_chunk(self, sequence: Sequence, budget: int, chunks: list[tuple[Sequence, int]]) -> int:
        """Prefill as much of a prompt as the budget allows; its full blocks can be found from now on."""
        tokens = min(budget, sequence.prefill_target - sequence.computed)
        chunks.append((sequence, tokens))
        assert sequence.holding is not None
        self._kv.name(sequence.holding, sequence.computed + tokens)
        return tokens

    def _admit_head(self, now: float) -> Sequence | None:
        """Move the head of the queue into the batch, if there is a place and blocks for all its prompt."""
        if not self._waiting or len(self._running) >= self.config.max_num_seqs:
            return None
        head = self._waiting[0]
        holding = self._kv.start(head.request, head.prefill_target)
        if holding is None:
            return None
        self._waiting.popleft()
        self._running[head.id] = head
        if head.started_s is None:
            self._prefix_queries += head.request.prompt_tokens
            self._prefix_hits += holding.cached_tokens
        head.start(holding, now)
        return head

    def _give_back(self, sequence: Sequence) -> None:
        if sequence.holding is not None:
            self._kv.release(sequence.holding)
            sequence.holding = None

    def _end(self, sequence: Sequence, reason: FinishReason, now: float) -> FinishedRequest:
        del self._known[sequence.id]
        self._running.pop(sequence.id, None)
        self._give_back(sequence)
        sequence.ended = True
        self._finished += 1
        return sequence.finished(reason, now)
