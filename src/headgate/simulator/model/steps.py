"""The current steps: one, or several equal ones, with the end of each."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from headgate.simulator.model.batch import StepWork
from headgate.simulator.model.config import EngineConfig
from headgate.simulator.model.kv import KvBlocks
from headgate.simulator.model.request import Emission, StepPlan
from headgate.simulator.model.sequence import Chunk
from headgate.simulator.model.sequence import Sequence as Running

_NOISE = (0.3, 1.7)
"""Bounds of a step's time, as a fraction of its nominal time."""


class Steps:
    """The work of the steps, when each ends, and the results of those that are over."""

    __slots__ = ("_ends", "chunks", "decoding", "done", "emitted", "plan")

    def __init__(
        self,
        config: EngineConfig,
        now: float,
        work: StepWork,
        steps: int,
        slowdown: float,
        number: int,
    ) -> None:
        """`number` is the index of the first of them among all steps of the engine."""
        self.decoding = work.decoding
        self.chunks = work.chunks
        self.done = 0
        """Steps that are over and accounted for."""
        self.emitted: list[Emission] = []
        prefill_tokens = sum(tokens for _, tokens in work.chunks)
        kv_tokens = sum(sequence.computed for sequence in work.decoding)
        first_s = config.costs.step_seconds(
            # Verifying a drafted token costs as much as a sequence of its own.
            decode_sequences=len(work.decoding) * (1 + config.draft_tokens),
            kv_tokens=kv_tokens,
            prefill_tokens=prefill_tokens,
            starts=len(work.admitted),
        )
        first_s += work.adapters_loaded * config.adapter_load_s
        first_s += work.adapters_from_host * config.adapter_host_load_s
        if work.decoding:
            first_s += config.draft_tokens * config.draft_token_s
        if config.host_kv_blocks:
            first_s += sum(each.host_tokens for each in work.admitted) * config.host_token_s
        if config.disk_kv_blocks:
            disk_s_per_token = config.kv_bytes_per_token / config.disk_bytes_per_s
            for tokens in filter(None, (each.disk_tokens for each in work.admitted)):
                first_s += config.disk_latency_s + tokens * disk_s_per_token
        if config.remote_kv_blocks:
            remote_s_per_token = config.kv_bytes_per_token / config.remote_bytes_per_s
            for tokens in filter(None, (each.remote_tokens for each in work.admitted)):
                first_s += config.remote_latency_s + tokens * remote_s_per_token
        if config.start_jitter and work.admitted:
            start_s = len(work.admitted) * config.costs.per_start_s
            first_s = (first_s - start_s) * slowdown * _noise(config.step_jitter, number)
            first_s += start_s * slowdown * _noise(config.start_jitter, ~number)
        else:
            first_s = first_s * slowdown * _noise(config.step_jitter, number)
        self._ends = [now + first_s]
        if steps > 1:
            self._add_steps(config, steps - 1, kv_tokens, prefill_tokens, slowdown, number + 1)
        self.plan = StepPlan(
            starts_s=now,
            ends_s=self._ends[-1],
            decode_sequences=len(work.decoding),
            kv_tokens=kv_tokens,
            prefill_tokens=prefill_tokens,
            admitted=tuple(sequence.request.request_id for sequence in work.admitted),
            cached_tokens=tuple(sequence.found_tokens for sequence in work.admitted),
            preempted=tuple(sequence.request.request_id for sequence in work.preempted),
            steps=steps,
        )

    @property
    def prefills_all_it_can(self) -> bool:
        """Whether one prompt takes the whole budget in each of several steps."""
        return self.plan.steps > 1 and bool(self.chunks)

    def end_of(self, step: int) -> float:
        """When a step ends, counted from 0; for step -1, when the first one begins."""
        return self._ends[step] if step >= 0 else self.plan.starts_s

    def cut(self, now: float) -> int:
        """Make the step that runs at `now` the last one, and return its index."""
        last = min(bisect_left(self._ends, now), len(self._ends) - 1)
        del self._ends[last + 1 :]
        self.plan = msgspec.structs.replace(self.plan, ends_s=self._ends[-1], steps=last + 1)
        return last

    def _add_steps(
        self,
        config: EngineConfig,
        steps: int,
        kv_tokens: int,
        prefill_tokens: int,
        slowdown: float,
        number: int,
    ) -> None:
        """Append the further ends, each summed in the same order as for a single step, for equal bits."""
        growth = len(self.decoding)
        fixed_s = config.costs.fixed_seconds(decode_sequences=growth, prefill_tokens=prefill_tokens, starts=0)
        per_kv_token_s, jitter = config.costs.per_kv_token_s, config.step_jitter
        ends = self._ends
        now = ends[0]
        for step in range(number, number + steps):
            kv_tokens += growth
            seconds = (fixed_s + kv_tokens * per_kv_token_s) * slowdown
            now += seconds * _noise(jitter, step) if jitter else seconds
            ends.append(now)


def _noise(jitter: float, number: int) -> float:
    """Random factor on a step's time; depends on the step's number alone, whether steps are cut or not."""
    if not jitter:
        return 1.0
    low, high = _NOISE
    return min(high, max(low, random.Random(number).gauss(1.0, jitter)))  # noqa: S311


# Apply the cache effects of several equal steps, in the order in which single steps would cause them.
#
# This order matters if a decoding sequence names blocks of its output: the first request to name a block gets
# the name, and an idle cached block may be evicted before or after a request finds its name taken.
_GROWS, _PREFILLS, _NAMES = range(3)
"""Within a step: blocks are allocated, a prompt chunk is named when it begins, outputs when it ends."""


def follow(kv: KvBlocks, decoding: Sequence[Running], chunks: Sequence[Chunk], steps: int) -> None:
    """Apply the last `steps` steps of these, which have been computed; the first of them had its blocks.

    `chunks` are those of each step, of sequences that have computed them.
    """
    due: list[tuple[int, int, int, Callable[[], object]]] = []
    for order, sequence in enumerate(decoding):
        holding = sequence.holding
        if holding is None:
            continue
        before, size = sequence.computed - steps, kv.block_size
        for room in range(holding.room, sequence.computed, size):
            due.append((room - before, _GROWS, order, partial(sequence.grow, kv, room + 1)))
        for full in range(holding.names_at, sequence.computed + 1, size):
            due.append((full - before - 1, _NAMES, order, partial(kv.name, holding, full)))
    for order, (sequence, tokens) in enumerate(chunks):
        if sequence.holding is not None:
            for step in range(1, steps):
                computed = sequence.computed - (steps - 1 - step) * tokens
                due.append((step, _PREFILLS, order, partial(kv.name, sequence.holding, computed)))
    for *_, action in sorted(due, key=lambda each: each[:3]):
        action()


def catch_up(kv: KvBlocks, decoding: Sequence[Running], chunks: Sequence[Chunk], steps: int) -> None:
    """Like `follow`, for steps that name no output blocks: the order makes no difference then."""
    for sequence in decoding:
        if sequence.room_left < 0:
            sequence.grow(kv, sequence.computed)
    for sequence, _ in chunks:
        if sequence.holding is not None:
            kv.name(sequence.holding, sequence.computed)
