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
from heapq import heappop, heappush

from headgate.simulator.autoscaling.work import Ledger, Work
from headgate.simulator.model import EngineConfig


class Replica:
    """Advances to any later time; requests are told to the ledger as they begin and end."""

    __slots__ = (
        "_batch",
        "_budget",
        "_context",
        "_costs",
        "_group",
        "_group_ends",
        "_kv_tokens",
        "_ledger",
        "_max_sequences",
        "_reserved",
        "_step_s",
        "_steps",
        "at",
        "busy_s",
        "free_at",
        "name",
        "queue",
        "queued_tokens",
    )

    def __init__(self, name: str, engine: EngineConfig, ledger: Ledger, now: float) -> None:
        self.name = name
        self._costs = engine.costs
        self._budget = engine.prefill_budget_tokens
        self._kv_tokens = engine.kv_blocks * engine.block_size
        self._max_sequences = engine.max_num_seqs
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
        self._batch: list[tuple[float, int, Work]] = []
        self._steps = 0.0
        self._step_s = 0.0
        self._context = 0.0
        """Context tokens of the batch, less one for each sequence and step so far."""
        self._reserved = 0

    # -- readings, as of the last `advance`

    @property
    def running(self) -> int:
        """Requests that the engine works on."""
        return len(self._batch) + len(self._group)

    @property
    def decoding(self) -> int:
        """Sequences in the batch."""
        return len(self._batch)

    @property
    def waiting(self) -> int:
        return len(self.queue)

    @property
    def requests(self) -> int:
        return len(self._batch) + len(self._group) + len(self.queue)

    @property
    def tokens_in_use(self) -> float:
        """Tokens in the KV cache of requests."""
        prefilling = sum(work.prompt_tokens for work in self._group)
        return self._context + len(self._batch) * self._steps + prefilling

    @property
    def kv_usage(self) -> float:
        return self.tokens_in_use / self._kv_tokens

    def decodes(self) -> list[tuple[float, Work]]:
        """The sequences of the batch, each with the tokens that are left of it."""
        return [(ends - self._steps, work) for ends, _, work in self._batch]

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
        costs = self._costs
        steps = max(1.0, work.uncached_tokens / self._budget)
        seconds = (
            work.uncached_tokens * costs.per_prefill_token_s
            + costs.per_start_s
            + steps * (costs.base_s + len(self._batch) * costs.per_decode_sequence_s)
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
            elif not self._batch:
                if now > self.at:
                    self.at = now
                return
            else:
                costs = self._costs
                size = len(self._batch)
                self._step_s = (
                    costs.base_s
                    + size * costs.per_decode_sequence_s
                    + (self._context + size * self._steps) * costs.per_kv_token_s
                )
                ends = self.at + (self._batch[0][0] - self._steps) * self._step_s
                if ends > now:
                    self._decode(now)
                    return
                self._decode(ends, at_least_one=True)

    def fork(self) -> Replica:
        """A copy that goes on alone, with the same ledger."""
        twin = copy.copy(self)
        twin.queue = self.queue.copy()
        twin._group = self._group.copy()
        twin._batch = self._batch.copy()
        return twin

    # -- internal

    def _has_room(self, work: Work) -> bool:
        if not self._batch and not self._group:
            return True
        running = len(self._batch) + len(self._group)
        needed = self._reserved + work.prompt_tokens + work.output_tokens
        return running < self._max_sequences and needed <= self._kv_tokens

    def _begin_group(self) -> None:
        group, queue = self._group, self.queue
        tokens = prompts = 0
        while queue and (not group or tokens + queue[0].uncached_tokens <= self._budget):
            if not self._has_room(queue[0]):
                break
            work = queue.popleft()
            group.append(work)
            tokens += work.uncached_tokens
            prompts += work.prompt_tokens
            self._reserved += work.prompt_tokens + work.output_tokens
        self.queued_tokens -= tokens
        steps = tokens / self._budget
        if not queue or steps < 1.0:
            steps = max(1.0, math.ceil(steps))
        costs = self._costs
        size = len(self._batch)
        context = self._context + size * (self._steps + steps / 2.0)
        base_s = max(costs.base_s, costs.prefill_base_s) + tokens / steps * costs.per_prefill_token_s
        self._step_s = (
            max(base_s, costs.least_prefill_s)
            + size * costs.per_decode_sequence_s
            + context * costs.per_kv_token_s
            + len(group) / steps * costs.per_start_s
        )
        self._group_ends = self.at + steps * self._step_s

    def _end_group(self) -> None:
        now, steps = self.at, self._steps
        for work in self._group:
            self._ledger.first(work, now)
            if work.output_tokens > 1:
                heappush(self._batch, (steps + work.output_tokens - 1, work.number, work))
                self._context += work.prompt_tokens - steps
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
        step_s, batch = self._step_s, self._batch
        steps = self._steps + seconds / step_s if step_s else math.inf
        if at_least_one and batch and batch[0][0] > steps:
            steps = batch[0][0]
        while batch and batch[0][0] <= steps:
            ends, _, work = heappop(batch)
            self._ledger.end(work, self.at + (ends - self._steps) * step_s)
            self._context -= work.prompt_tokens - (ends - work.output_tokens + 1)
            self._reserved -= work.prompt_tokens + work.output_tokens
        if steps < math.inf:
            self._steps = steps
        self.at = until
