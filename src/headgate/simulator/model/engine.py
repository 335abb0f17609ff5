"""The engine: requests in, steps of a batch, tokens out.

Steps come in two halves, because a step takes time and the world goes on meanwhile: `begin_step` settles who
is in the batch and for how long, `finish_step` hands out the tokens. In between requests may be submitted
(they wait for the next step) and cancelled (they get nothing more). `step` is both halves for callers
without such events.

Callers in virtual time take like steps in one go: steps in which the same sequences decode and the same
prompt is prefilled, until one of them ends. Whatever happens meanwhile cuts them at the step under way then
(`settle`), so that all times are those of single steps, to the last bit.
"""

import math

import msgspec

from headgate.simulator.model.batch import Batch
from headgate.simulator.model.config import EngineConfig
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
from headgate.simulator.model.sequence import Sequence, Speculation
from headgate.simulator.model.statistics import BusyTime, EngineStatistics, Totals
from headgate.simulator.model.steps import Steps, catch_up, follow
from headgate.simulator.model.tiers import KvEvent, RemoteStore


class Engine:
    """Continuous batching after vLLM's scheduler; `Batch` has its rules."""

    def __init__(self, config: EngineConfig, store: RemoteStore | None = None) -> None:
        """`store` is what it shares with other engines if it has `remote_kv_blocks`; None is its own."""
        self.config = config
        self._speculation = Speculation(config.draft_tokens, config.draft_acceptance)
        remote = None
        if config.remote_kv_blocks:
            store = RemoteStore(config.remote_kv_blocks) if store is None else store
            remote = store.connect(tells=config.kv_events)
        self._batch = Batch(config, self._speculation, remote)
        self._known: dict[RequestId, Sequence] = {}
        self._step: Steps | None = None
        self._slowdown = 1.0
        self.last_token_s = -math.inf
        """When it last gave anyone a token; with several steps under way, as of the last `settle`."""
        self._totals = Totals()
        self._busy = BusyTime()

    # -- requests

    def submit(self, request: SimulatedRequest, now: float) -> None:
        """Put a request in the queue; `RefusedError` if it is too long or the queue is full."""
        if request.request_id in self._known:
            raise ValueError(f"request {request.request_id}: is in the engine already")
        try:
            self._check_limits(request)
        except (QueueFullError, RequestTooLongError):
            self._totals.refused_total += 1
            raise
        if self._may_start_at_once(request):
            self.settle(now)
        sequence = Sequence(request, self._totals.submitted_total, now)
        self._totals.submitted_total += 1
        self._known[sequence.id] = sequence
        self._batch.add(sequence)

    def cancel(self, request_id: RequestId, now: float) -> FinishedRequest | None:
        """End a request wherever it is; None if it is not in the engine (any more)."""
        sequence = self._known.get(request_id)
        if sequence is None:
            return None
        self.settle(now)
        return self._end(sequence, "abort", now)

    def release_kv(self, request_id: RequestId, now: float) -> bool:
        """Give back the blocks of a request that kept them; False if it has none (any more)."""
        self.settle(now)
        return self._batch.release_kept(request_id)

    # -- steps

    def begin_step(self, now: float, *, most: int = 1) -> StepPlan | None:
        """Settle the next batch; None if there is nothing to do, and then there is no step to finish.

        Up to `most` like steps are begun together. `step_ends_s` says when the last of them ends, and
        changes when they are cut.
        """
        assert self._step is None, "the step under way must be finished first"
        work = self._batch.next_step(now)
        self._totals.preempted_total += len(work.preempted)
        for sequence in work.admitted:
            if not sequence.preemptions:
                self._totals.starts(sequence)
        if not work.decoding and not work.chunks:
            return None
        steps = 1 if most == 1 else self._batch.like_steps(work, most)
        self._step = Steps(self.config, now, work, steps, self._slowdown, self._totals.steps_total)
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
        self._advance(step, step.plan.steps)
        self._batch.kv.put_computed()
        self._step = None
        ends_s = step.plan.ends_s
        for sequence, _ in step.chunks:
            if sequence.decoding and not sequence.ended:
                step.emitted.append(sequence.emit(ends_s))
                self._totals.output_tokens_total += 1
                self.last_token_s = ends_s
        finished = tuple(
            self._end(sequence, sequence.request.finish_reason, ends_s)
            for sequence in (*step.decoding, *(sequence for sequence, _ in step.chunks))
            if sequence.emitted == sequence.output_tokens and not sequence.ended
        )
        return StepOutcome(plan=step.plan, emitted=tuple(step.emitted), finished=finished)

    def step(self, now: float) -> StepOutcome | None:
        """One whole step that begins `now` and ends `duration_s` later; None if there is nothing to do."""
        return None if self.begin_step(now) is None else self.finish_step()

    def slow_down(self, factor: float, now: float) -> None:
        """Steps that begin from now on take `factor` times as long as the costs say; 1 ends it."""
        if not factor > 0:
            raise ValueError(f"a step cannot take {factor} times as long")
        self.settle(now)
        self._slowdown = factor

    def change_costs(self, like: EngineConfig, now: float) -> None:
        """Steps that begin from now on have the costs of `like`, and their deviations."""
        self.settle(now)
        self.config = msgspec.structs.replace(
            self.config, costs=like.costs, step_jitter=like.step_jitter, start_jitter=like.start_jitter
        )

    # -- readings

    def take_kv_events(self) -> tuple[KvEvent, ...]:
        """What the prefix cache stored and removed since the last call, in order, if the config has events.

        As in vLLM, blocks are stored as the step that computes them begins.
        """
        return self._batch.kv.take_events()

    def cached_tokens(self, request: SimulatedRequest) -> int:
        """How much of a prompt would be found in the cache now."""
        return self._batch.kv.cached_tokens(request)

    def waiting_tokens(self) -> int:
        """Uncached tokens of the requests that wait, as SGLang reports them."""
        return sum(
            max(0, each.prefill_target - self._batch.kv.cached_tokens(each.request))
            for each in self._batch.waiting
        )

    def clear_prefix_cache(self) -> bool:
        """Forget all cached blocks; False, and no change, while requests hold some."""
        return self._batch.kv.clear()

    def statistics(self) -> EngineStatistics:
        """How things stand; with several steps under way, as of the last `settle`."""
        batch = self._batch
        return EngineStatistics(
            running=len(batch.running),
            waiting=len(batch.waiting),
            kv_blocks=batch.kv.total,
            kv_blocks_used=batch.kv.used,
            kv_blocks_cached=batch.kv.cached,
            adapters_running=batch.adapters.in_use,
            adapters_waiting=frozenset(each.request.adapter for each in batch.waiting) - {""}
            if batch.has_adapters
            else frozenset(),
            adapters_loaded=batch.adapters.loaded,
            max_adapters=batch.adapters.slots,
            adapter_loads_total=batch.adapters.loads_total,
            busy_s_total=self._busy.total_s,
            **msgspec.structs.asdict(self._totals),
            drafts_total=self._speculation.drafts,
            draft_tokens_total=self._speculation.drafts * self.config.draft_tokens,
            accepted_tokens_total=self._speculation.accepted,
            accepted_by_position=dict(self._speculation.accepted_by_position),
        )

    def validate(self) -> None:
        """Recheck every invariant; AssertionError says which one broke."""
        batch = self._batch
        batch.validate()
        assert set(self._known) == {sequence.id for sequence in (*batch.running.values(), *batch.waiting)}
        totals = self._totals
        assert totals.submitted_total == totals.finished_total + len(self._known), (
            "a request got lost or ended twice"
        )
        for sequence in batch.running.values():
            covered = max(sequence.prefill_target, sequence.computed)
            held = sequence.holding.blocks if sequence.holding else 0
            ahead = self.config.draft_tokens + (self._step is not None and sequence.decoding)
            least, most = batch.kv.blocks_for(covered), batch.kv.blocks_for(covered + ahead)
            assert least <= held <= most, f"{sequence.id} holds {held} blocks for {covered} tokens"

    # -- inside

    def _check_limits(self, request: SimulatedRequest) -> None:
        config = self.config
        if request.prompt_tokens + request.output_tokens > config.max_model_len:
            raise RequestTooLongError(request.prompt_tokens, request.output_tokens, config.max_model_len)
        limit = config.max_num_seqs + config.max_waiting
        if len(self._known) >= limit:
            raise QueueFullError(limit)

    def _may_start_at_once(self, request: SimulatedRequest) -> bool:
        """Whether a request that comes now might start before the steps under way end."""
        step = self._step
        return (
            step is not None and not step.prefills_all_it_can and self._batch.may_start_before_others(request)
        )

    def _account(self, step: Steps, under_way: int) -> None:
        """The steps before number `under_way` are over; that one has its blocks."""
        if under_way == step.done:
            return
        self._advance(step, under_way)
        for sequence in step.decoding:
            if not sequence.room_left:
                sequence.grow(self._batch.kv, sequence.computed + 1)
        for sequence, tokens in step.chunks:
            assert sequence.holding is not None
            self._batch.kv.name(sequence.holding, sequence.computed + tokens)

    def _advance(self, step: Steps, until: int) -> None:
        """The steps before number `until` are over: their tokens are computed, and those of decoding
        sequences are emitted."""
        steps = until - step.done
        now = step.end_of(until - 1)
        self._count(step, steps, now)
        emitted = step.emitted
        before = len(emitted)
        names_answers = False
        drafts = self._speculation.draft_tokens > 0
        for sequence in step.decoding:
            if not sequence.ended:
                tokens = self._speculation.tokens(sequence) if drafts else steps
                sequence.computed += tokens
                emitted.append(sequence.emit(now, tokens))
                assert sequence.holding is not None
                names_answers |= sequence.computed >= sequence.holding.names_at
        if len(emitted) > before:
            self.last_token_s = now
            self._totals.output_tokens_total += sum(each.tokens for each in emitted[before:])
        for sequence, tokens in step.chunks:
            if not sequence.ended:
                sequence.prefill(steps * tokens)
        grow = follow if names_answers else catch_up
        grow(self._batch.kv, step.decoding, step.chunks, steps)
        step.done = until

    def _count(self, step: Steps, steps: int, now: float) -> None:
        if step.done == 0:
            self._busy.begin(step.plan.starts_s)
        self._busy.end(now)
        self._totals.steps_total += steps
        self._totals.prefill_tokens_total += steps * step.plan.prefill_tokens

    def _end(self, sequence: Sequence, reason: FinishReason, now: float) -> FinishedRequest:
        del self._known[sequence.id]
        self._batch.remove(sequence, may_keep=reason != "abort")
        sequence.ended = True
        self._totals.finished_total += 1
        return sequence.finished(reason, now)
