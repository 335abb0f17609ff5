"""A request in an engine: running, in the waiting queue, and with drafted tokens."""

from __future__ import annotations

import random
from bisect import insort
from collections.abc import Iterator

from headgate.simulator.model.holding import Holding
from headgate.simulator.model.kv import KvBlocks
from headgate.simulator.model.request import (
    Emission,
    FinishedRequest,
    FinishReason,
    RequestId,
    SimulatedRequest,
)


class SequenceHistory:
    """When a request arrived, started, and got its tokens; reported when it ends."""

    __slots__ = (
        "_arrived_s",
        "_first_token_s",
        "_last_token_s",
        "cached_tokens",
        "preemptions",
        "started_s",
    )

    def __init__(self, now: float) -> None:
        self._arrived_s = now
        self.started_s: float | None = None
        """When it started for the first time."""
        self.cached_tokens = 0
        """Of its prompt, when it started for the first time."""
        self.preemptions = 0
        self._first_token_s: float | None = None
        self._last_token_s = now

    def started(self, cached_tokens: int, now: float) -> None:
        self.started_s = now
        self.cached_tokens = cached_tokens

    def emitted(self, now: float, *, is_first: bool) -> float:
        """Record tokens that are emitted at `now`; returns the seconds since those before, or since its
        arrival."""
        if is_first:
            self._first_token_s = now
        gap_s = now - self._last_token_s
        self._last_token_s = now
        return gap_s

    def finished(
        self, request: SimulatedRequest, output_tokens: int, reason: FinishReason, now: float
    ) -> FinishedRequest:
        return FinishedRequest(
            request_id=request.request_id,
            reason=reason,
            prompt_tokens=request.prompt_tokens,
            output_tokens=output_tokens,
            preemptions=self.preemptions,
            cached_tokens=self.cached_tokens,
            arrived_s=self._arrived_s,
            started_s=self.started_s,
            first_token_s=self._first_token_s,
            finished_s=now,
        )


class Sequence:
    """The mutable state of a request; only its engine changes it."""

    __slots__ = (
        "computed",
        "decoding",
        "emitted",
        "ended",
        "history",
        "holding",
        "order",
        "output_tokens",
        "prefill_target",
        "request",
        "rng",
    )

    def __init__(self, request: SimulatedRequest, order: int, now: float) -> None:
        self.request = request
        self.order = order
        self.history = SequenceHistory(now)
        self.emitted = 0
        self.computed = 0  # tokens whose keys and values are in the cache
        self.prefill_target = request.prompt_tokens
        self.decoding = False  # whether everything up to the target is computed, and it runs
        self.output_tokens = request.output_tokens
        self.holding: Holding | None = None
        self.ended = False
        self.rng: random.Random | None = None
        """Random generator of this request, if it needs one."""

    @property
    def id(self) -> RequestId:
        return self.request.request_id

    def start(self, holding: Holding, now: float) -> None:
        """Join the batch; tokens in the cache or from another engine are already computed."""
        self.holding = holding
        self.computed = holding.cached_tokens
        if self.history.started_s is None:
            self.history.started(holding.cached_tokens, now)
            received = min(self.request.received_tokens, self.prefill_target - 1)
            self.computed = max(self.computed, received)

    def prefill(self, tokens: int) -> None:
        """Count `tokens` further tokens as prefilled."""
        self.computed += tokens
        self.decoding = self.computed >= self.prefill_target

    def grow(self, kv: KvBlocks, tokens: int) -> None:
        """Allocate blocks for `tokens` tokens, which are available."""
        assert self.holding is not None
        has_room = kv.grow(self.holding, tokens)
        assert has_room, "more like steps were begun than there are blocks"

    def give_up_blocks(self) -> Holding:
        """Hand its blocks over to the caller."""
        holding, self.holding = self.holding, None
        assert holding is not None, f"{self.id} holds no blocks"
        return holding

    def lose_cache(self) -> None:
        """Recompute later: the tokens emitted so far become part of what must be prefilled again."""
        self.computed = 0
        self.decoding = False
        self.prefill_target = self.request.prompt_tokens + self.emitted
        self.history.preemptions += 1

    @property
    def found_tokens(self) -> int:
        """Tokens found in a cache when it last started."""
        return self.holding.cached_tokens if self.holding else 0

    @property
    def host_tokens(self) -> int:
        """Those of them that came from host memory."""
        return self.holding.host_tokens if self.holding else 0

    @property
    def disk_tokens(self) -> int:
        """Those of them that came from disk."""
        return self.holding.disk_tokens if self.holding else 0

    @property
    def remote_tokens(self) -> int:
        """Those of them that came from the shared store."""
        return self.holding.remote_tokens if self.holding else 0

    @property
    def room_left(self) -> int:
        """Tokens that fit in its blocks beyond the computed ones."""
        return self.holding.room - self.computed if self.holding else 0

    def emit(self, now: float, tokens: int = 1) -> Emission:
        """Emit the next output tokens, the last of them at `now`."""
        gap_s = self.history.emitted(now, is_first=self.emitted == 0)
        emission = Emission(self.request.request_id, self.emitted, gap_s, tokens)
        self.emitted += tokens
        return emission

    def finished(self, reason: FinishReason, now: float) -> FinishedRequest:
        return self.history.finished(self.request, self.emitted, reason, now)


Chunk = tuple[Sequence, int]
"""A sequence, and how many of its tokens a step prefills."""


def by_priority(sequence: Sequence) -> tuple[int, int]:
    """Sort key, as in vLLM: smaller numbers first, then in order of arrival."""
    return sequence.request.priority, sequence.order


class WaitingQueue:
    """Sequences outside the batch, in the order in which they are considered to start."""

    def __init__(self, *, by_priority: bool) -> None:
        self._by_priority = by_priority
        self._sequences: list[Sequence] = []

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._sequences)

    def add(self, sequence: Sequence) -> None:
        """Add a new sequence."""
        if self._by_priority:
            insort(self._sequences, sequence, key=by_priority)
        else:
            self._sequences.append(sequence)

    def give_back(self, sequence: Sequence) -> None:
        """Return a preempted sequence: it goes first again, unless priorities say otherwise."""
        if self._by_priority:
            insort(self._sequences, sequence, key=by_priority)
        else:
            self._sequences.insert(0, sequence)

    def remove(self, sequence: Sequence) -> None:
        self._sequences.remove(sequence)


# Speculative decoding: a step drafts tokens for each sequence and verifies all of them at once.
#
# Each drafted token is accepted with the same probability if those before it were (Leviathan et al., "Fast
# inference from transformers via speculative decoding", 2023); accepted tokens are emitted together with the
# one that every step generates. Acceptance depends on the request alone, not on the other requests in the
# batch.
class Speculation:
    """Drafted and accepted tokens so far. Costs nothing without drafts."""

    def __init__(self, draft_tokens: int, acceptance: float) -> None:
        self.draft_tokens = draft_tokens
        """Per sequence and step; 0 disables drafting."""
        self._acceptance = acceptance
        self.drafts = 0
        self.accepted = 0
        self.accepted_by_position = dict.fromkeys(range(draft_tokens), 0)

    def most_tokens(self, sequence: Sequence) -> int:
        """How many tokens a step may generate for a decoding sequence, for which it needs blocks."""
        return min(1 + self.draft_tokens, sequence.output_tokens - sequence.emitted)

    def tokens(self, sequence: Sequence) -> int:
        """How many tokens the step that ends generates for it."""
        if not self.draft_tokens:
            return 1
        self.drafts += 1
        rng = sequence.rng
        if rng is None:
            rng = sequence.rng = random.Random(sequence.id)  # noqa: S311 - must be reproducible
        accepted = 0
        for position in range(self.most_tokens(sequence) - 1):
            if rng.random() >= self._acceptance:
                break
            accepted += 1
            self.accepted_by_position[position] += 1
        self.accepted += accepted
        return 1 + accepted
