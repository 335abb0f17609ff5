"""The engine: requests in, steps of a batch, tokens out.

A step takes time, during which events happen, so it has two halves: `begin_step` decides the batch and its
duration, `finish_step` returns the tokens. In between, requests may be submitted (they wait for the next
step) and cancelled (they get no further tokens). `step` does both for callers without such events.

Callers in virtual time run equal steps at once: steps in which the same sequences decode and the same prompt
is prefilled, until one of them ends. Any event in between cuts them at the current step (`settle`), so that
all times equal those of single steps, to the last bit.
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
    """Continuous batching modeled on vLLM's scheduler; `Batch` has the rules."""

    def __init__(self, config: EngineConfig, store: RemoteStore | None = None) -> None:
        """`store` is shared with other engines if there are `remote_kv_blocks`; None creates its own."""
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
        """When it last emitted a token; while several steps run, as of the last `settle`."""
        self._totals = Totals()
        self._busy = BusyTime()

    # -- requests

    def submit(self, request: SimulatedRequest, now: float) -> None:
        """Queue a request; raises `RefusedError` if it is too long or the queue is full."""
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
        """End a request in any state; None if the engine does not have it (any more)."""
        sequence = self._known.get(request_id)
        if sequence is None:
            return None
        self.settle(now)
        return self._end(sequence, "abort", now)

    def release_kv(self, request_id: RequestId, now: float) -> bool:
        """Free the kept blocks of a request; False if it has none (any more)."""
        self.settle(now)
        return self._batch.release_kept(request_id)

    # -- steps

    def begin_step(self, now: float, *, most: int = 1) -> StepPlan | None:
        """Decide the next batch; returns None if there is no work, and then there is no step to finish.

        Up to `most` equal steps begin together. `step_ends_s` is the end of the last of them, and changes
        when they are cut.
        """
        assert self._step is None, "the step under way must be finished first"
        work = self._batch.next_step(now)
        self._totals.preempted_total += len(work.preempted)
        for sequence in work.admitted:
            if not sequence.history.preemptions:
                self._totals.starts(sequence)
        if not work.decoding and not work.chunks:
            return None
        steps = 1 if most == 1 else self._batch.like_steps(work, most)
        self._step = Steps(self.config, now, work, steps, self._slowdown, self._totals.steps_total)
        return self._step.plan

    @property
    def step_ends_s(self) -> float | None:
        """When the current step ends, or the last of several; None between steps."""
        return None if self._step is None else self._step.plan.ends_s

    def settle(self, now: float) -> None:
        """Account for the steps that ended before `now`; later ones have not begun.

        Call before reading or changing the engine while several steps run; `finish_step` still returns their
        outcome.
        """
        if self._step is not None and self._step.plan.steps > 1:
            self._account(self._step, self._step.cut(now))

    def finish_step(self) -> StepOutcome:
        """End the current step at its planned time, and return its tokens."""
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
        """Run one whole step from `now` until `duration_s` later; returns None if there is no work."""
        return None if self.begin_step(now) is None else self.finish_step()

    def slow_down(self, factor: float, now: float) -> None:
        """Steps that begin from now on take `factor` times as long; 1 restores normal speed."""
        if not factor > 0:
            raise ValueError(f"a step cannot take {factor} times as long")
        self.settle(now)
        self._slowdown = factor

    def change_costs(self, like: EngineConfig, now: float) -> None:
        """Steps that begin from now on have the costs and deviations of `like`."""
        self.settle(now)
        self.config = msgspec.structs.replace(
            self.config, costs=like.costs, step_jitter=like.step_jitter, start_jitter=like.start_jitter
        )

    # -- readings

    def take_kv_events(self) -> tuple[KvEvent, ...]:
        """Events of the prefix cache since the last call, in order, if the config has events.

        As in vLLM, blocks are stored when the step that computes them begins.
        """
        return self._batch.kv.take_events()

    def cached_tokens(self, request: SimulatedRequest) -> int:
        """How many prompt tokens would be found in the cache now."""
        return self._batch.kv.cached_tokens(request)

    def waiting_tokens(self) -> int:
        """Uncached tokens of waiting requests, as SGLang reports them."""
        return sum(
            max(0, each.prefill_target - self._batch.kv.cached_tokens(each.request))
            for each in self._batch.waiting
        )

    def clear_prefix_cache(self) -> bool:
        """Clear all cached blocks; False, without a change, while requests hold some."""
        return self._batch.kv.clear()

    def statistics(self) -> EngineStatistics:
        """Current statistics; while several steps run, as of the last `settle`."""
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
        """Check all invariants; AssertionError names the one that failed."""
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

    # -- internal

    def _check_limits(self, request: SimulatedRequest) -> None:
        config = self.config
        if request.prompt_tokens + request.output_tokens > config.max_model_len:
            raise RequestTooLongError(request.prompt_tokens, request.output_tokens, config.max_model_len)
        limit = config.max_num_seqs + config.max_waiting
        if len(self._known) >= limit:
            raise QueueFullError(limit)

    def _may_start_at_once(self, request: SimulatedRequest) -> bool:
        """Whether a new request might start before the current steps end."""
        step = self._step
        return (
            step is not None and not step.prefills_all_it_can and self._batch.may_start_before_others(request)
        )

    def _account(self, step: Steps, under_way: int) -> None:
        """Account for the steps before number `under_way`, and allocate the blocks of that one."""
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
        """Account for the steps before number `until`: compute their tokens, emit those of decoding ones."""
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
