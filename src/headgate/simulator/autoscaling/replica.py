"""One engine as a queue of prompts and a batch that decodes, from event to event instead of step by step.

Prompts are prefilled in order of arrival. Those that fit a step together share it, longer ones take several.
Every sequence of the batch gets one token a step, so that one count of steps tells when each of them ends.
The batch as it is when a prompt begins holds for all of its steps. See docs/benchmarks.md for how far this is
from the engine of `simulator.model`.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush

import msgspec

from headgate.simulator.autoscaling.work import Ledger, Work
from headgate.simulator.model import EngineConfig, StepCosts


class _Limits(msgspec.Struct, frozen=True):
    """What one step of the engine takes and costs, and what fits into its batch."""

    costs: StepCosts
    prefill_tokens: int
    """Prompt tokens of one step."""
    kv_tokens: int
    sequences: int


class DecodeBatch:
    """The sequences that decode together: each step generates one token for every one of them."""

    __slots__ = ("_context", "_steps", "sequences", "step_s")

    def __init__(self) -> None:
        self.sequences: list[tuple[float, int, Work]] = []
        """A heap by the step that generates the last token."""
        self._steps = 0.0
        """Steps so far."""
        self._context = 0.0
        """Context tokens, less one for each sequence and step so far."""
        self.step_s = 0.0
        """Length of a step now."""

    @property
    def left_s(self) -> float:
        """Seconds until the next sequence ends, at the current length of a step. There must be one."""
        return (self.sequences[0][0] - self._steps) * self.step_s

    def context_tokens(self, after_steps: float = 0.0) -> float:
        """Tokens in the KV cache of its sequences, now or some steps later."""
        return self._context + len(self.sequences) * (self._steps + after_steps)

    def left(self) -> list[tuple[float, Work]]:
        """The sequences, each with the tokens that are left of it."""
        return [(ends - self._steps, work) for ends, _, work in self.sequences]

    def add(self, work: Work) -> None:
        """Join a sequence that has its first token."""
        heappush(self.sequences, (self._steps + work.output_tokens - 1, work.number, work))
        self._context += work.prompt_tokens - self._steps

    def run(self, seconds: float, *, at_least_one: bool) -> Sequence[tuple[float, Work]]:
        """Decode for a time. Returns the sequences that end meanwhile, each with the seconds after which it
        does. `at_least_one`: the next to end does, even if rounding errors leave a little of it."""
        before, step_s, sequences = self._steps, self.step_s, self.sequences
        steps = before + seconds / step_s if step_s else math.inf
        if at_least_one and sequences and sequences[0][0] > steps:
            steps = sequences[0][0]
        if steps < math.inf:
            self._steps = steps
        if not sequences or sequences[0][0] > steps:
            return ()
        ended = []
        while sequences and sequences[0][0] <= steps:
            ends, _, work = heappop(sequences)
            self._context -= work.prompt_tokens - (ends - work.output_tokens + 1)
            ended.append(((ends - before) * step_s, work))
        return ended

    def fork(self) -> DecodeBatch:
        twin = copy.copy(self)
        twin.sequences = self.sequences.copy()
        return twin


class Replica:
    """Advances to any later time; requests are told to the ledger as they begin and end."""

    __slots__ = (
        "_batch",
        "_group",
        "_group_ends",
        "_ledger",
        "_limits",
        "_reserved",
        "at",
        "busy_s",
        "free_at",
        "name",
        "queue",
        "queued_tokens",
    )

    def __init__(self, name: str, engine: EngineConfig, ledger: Ledger, now: float) -> None:
        self.name = name
        kv_tokens = engine.kv_blocks * engine.block_size
        self._limits = _Limits(engine.costs, engine.prefill_budget_tokens, kv_tokens, engine.max_num_seqs)
        self._ledger = ledger
        self.at = now
        self.busy_s = 0.0
        self.queue: deque[Work] = deque()
        self.queued_tokens = 0
        """Of prompts that wait."""
        self.free_at = now
        """When the prompts that it has are expected to be prefilled."""
        self._group: list[Work] = []
        self._group_ends = math.inf
        self._batch = DecodeBatch()
        self._reserved = 0
        """KV cache of the batch and the group once all of their tokens are generated."""

    # -- readings, as of the last `advance`

    @property
    def running(self) -> int:
        """Requests that the engine works on."""
        return len(self._batch.sequences) + len(self._group)

    @property
    def decoding(self) -> int:
        """Sequences in the batch."""
        return len(self._batch.sequences)

    @property
    def waiting(self) -> int:
        return len(self.queue)

    @property
    def requests(self) -> int:
        return len(self._batch.sequences) + len(self._group) + len(self.queue)

    @property
    def tokens_in_use(self) -> float:
        """Tokens in the KV cache of requests."""
        prefilling = sum(work.prompt_tokens for work in self._group)
        return self._batch.context_tokens() + prefilling

    @property
    def kv_usage(self) -> float:
        return self.tokens_in_use / self._limits.kv_tokens

    def decodes(self) -> list[tuple[float, Work]]:
        """The sequences of the batch, each with the tokens that are left of it."""
        return self._batch.left()

    def prefills(self) -> list[Work]:
        return [*self._group, *self.queue]

    @property
    def prefill_left_s(self) -> float:
        """Seconds until the prompts under way are prefilled; 0 if there are none."""
        return self._group_ends - self.at if self._group else 0.0

    # -- events

    def take(self, work: Work, now: float) -> None:
        """A request arrives; `now` is not before the last event."""
        self.advance(now)
        self.queue.append(work)
        self.queued_tokens += work.uncached_tokens
        costs = self._limits.costs
        steps = max(1.0, work.uncached_tokens / self._limits.prefill_tokens)
        seconds = (
            work.uncached_tokens * costs.per_prefill_token_s
            + costs.per_start_s
            + steps * (costs.base_s + len(self._batch.sequences) * costs.per_decode_sequence_s)
        )
        self.free_at = max(self.free_at, now) + seconds

    def advance(self, now: float) -> None:
        """Let it work until `now`."""
        while True:
            if self._group:
                ends = self._group_ends
                if ends > now:
                    self._decode(now)
                    return
                self._decode(ends)
                self._end_group()
            elif self.queue and self._has_room(self.queue[0]):
                self._begin_group()
            elif not self._batch.sequences:
                if now > self.at:
                    self.at = now
                return
            else:
                costs, batch = self._limits.costs, self._batch
                batch.step_s = (
                    costs.base_s
                    + len(batch.sequences) * costs.per_decode_sequence_s
                    + batch.context_tokens() * costs.per_kv_token_s
                )
                ends = self.at + batch.left_s
                if ends > now:
                    self._decode(now)
                    return
                self._decode(ends, at_least_one=True)

    def fork(self) -> Replica:
        """A copy that goes on alone, with the same ledger."""
        twin = copy.copy(self)
        twin.queue = self.queue.copy()
        twin._group = self._group.copy()
        twin._batch = self._batch.fork()
        return twin

    # -- internal

    def _has_room(self, work: Work) -> bool:
        if not self._batch.sequences and not self._group:
            return True
        running = len(self._batch.sequences) + len(self._group)
        needed = self._reserved + work.prompt_tokens + work.output_tokens
        return running < self._limits.sequences and needed <= self._limits.kv_tokens

    def _begin_group(self) -> None:
        group, queue, most = self._group, self.queue, self._limits.prefill_tokens
        tokens = 0
        while queue and (not group or tokens + queue[0].uncached_tokens <= most):
            if not self._has_room(queue[0]):
                break
            work = queue.popleft()
            group.append(work)
            tokens += work.uncached_tokens
            self._reserved += work.prompt_tokens + work.output_tokens
        self.queued_tokens -= tokens
        steps = tokens / most
        if not queue or steps < 1.0:
            steps = max(1.0, math.ceil(steps))
        costs, batch = self._limits.costs, self._batch
        base_s = max(costs.base_s, costs.prefill_base_s) + tokens / steps * costs.per_prefill_token_s
        batch.step_s = (
            max(base_s, costs.least_prefill_s)
            + len(batch.sequences) * costs.per_decode_sequence_s
            + batch.context_tokens(after_steps=steps / 2.0) * costs.per_kv_token_s
            + len(group) / steps * costs.per_start_s
        )
        self._group_ends = self.at + steps * batch.step_s

    def _end_group(self) -> None:
        now = self.at
        for work in self._group:
            self._ledger.first(work, now)
            if work.output_tokens > 1:
                self._batch.add(work)
            else:
                self._reserved -= work.prompt_tokens + work.output_tokens
                self._ledger.end(work, now)
        self._group.clear()
        if not self.queue:
            self.free_at = now

    def _decode(self, until: float, *, at_least_one: bool = False) -> None:
        """Steps of the current length until a time; sequences that have all their tokens end."""
        seconds = until - self.at
        if seconds > 0.0:
            self.busy_s += seconds
        for after_s, work in self._batch.run(seconds, at_least_one=at_least_one):
            self._ledger.end(work, self.at + after_s)
            self._reserved -= work.prompt_tokens + work.output_tokens
        self.at = until
