"""A request in an engine: running, waiting in its queue, and with tokens drafted ahead."""

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


class Sequence:
    """Mutable, and changed by its engine alone."""

    __slots__ = (
        "arrived_s",
        "cached_tokens",
        "computed",
        "decoding",
        "emitted",
        "ended",
        "first_token_s",
        "holding",
        "last_token_s",
        "order",
        "output_tokens",
        "preemptions",
        "prefill_target",
        "request",
        "rng",
        "started_s",
    )

    def __init__(self, request: SimulatedRequest, order: int, now: float) -> None:
        self.request = request
        self.order = order
        self.arrived_s = now
        self.started_s: float | None = None
        self.first_token_s: float | None = None
        self.last_token_s = now
        self.emitted = 0
        self.computed = 0  # tokens whose keys and values are in the cache
        self.prefill_target = request.prompt_tokens
        self.decoding = False  # whether all up to the target is computed, and it runs
        self.output_tokens = request.output_tokens
        self.cached_tokens = 0
        self.preemptions = 0
        self.holding: Holding | None = None
        self.ended = False
        self.rng: random.Random | None = None
        """What is left to chance with this request, if anything is."""

    @property
    def id(self) -> RequestId:
        return self.request.request_id

    def start(self, holding: Holding, now: float) -> None:
        """It is in the batch; what is in the cache, or came from another engine, is computed already."""
        self.holding = holding
        self.computed = holding.cached_tokens
        if self.started_s is None:
            self.started_s = now
            self.cached_tokens = holding.cached_tokens
            received = min(self.request.received_tokens, self.prefill_target - 1)
            self.computed = max(self.computed, received)

    def prefill(self, tokens: int) -> None:
        """So many further tokens of what must be prefilled are computed."""
        self.computed += tokens
        self.decoding = self.computed >= self.prefill_target

    def grow(self, kv: KvBlocks, tokens: int) -> None:
        """Take the blocks for so many tokens, which are there."""
        assert self.holding is not None
        has_room = kv.grow(self.holding, tokens)
        assert has_room, "more like steps were begun than there are blocks"

    def give_up_blocks(self) -> Holding:
        """They are the caller's now."""
        holding, self.holding = self.holding, None
        assert holding is not None, f"{self.id} holds no blocks"
        return holding

    def lose_cache(self) -> None:
        """Recompute: the tokens emitted so far become part of what must be prefilled again."""
        self.computed = 0
        self.decoding = False
        self.prefill_target = self.request.prompt_tokens + self.emitted
        self.preemptions += 1

    @property
    def found_tokens(self) -> int:
        """Those that were found in the cache as it last started."""
        return self.holding.cached_tokens if self.holding else 0

    @property
    def host_tokens(self) -> int:
        """Those of them that came from the host's memory."""
        return self.holding.host_tokens if self.holding else 0

    @property
    def disk_tokens(self) -> int:
        """Those of them that came from the disk."""
        return self.holding.disk_tokens if self.holding else 0

    @property
    def remote_tokens(self) -> int:
        """Those of them that came from the store that engines share."""
        return self.holding.remote_tokens if self.holding else 0

    @property
    def room_left(self) -> int:
        """Tokens for which it has blocks beyond those that are computed."""
        return self.holding.room - self.computed if self.holding else 0

    def emit(self, now: float, tokens: int = 1) -> Emission:
        """The next tokens of the answer, of which the last comes `now`."""
        emission = Emission(self.request.request_id, self.emitted, now - self.last_token_s, tokens)
        if self.emitted == 0:
            self.first_token_s = now
        self.last_token_s = now
        self.emitted += tokens
        return emission

    def finished(self, reason: FinishReason, now: float) -> FinishedRequest:
        return FinishedRequest(
            request_id=self.id,
            reason=reason,
            prompt_tokens=self.request.prompt_tokens,
            output_tokens=self.emitted,
            preemptions=self.preemptions,
            cached_tokens=self.cached_tokens,
            arrived_s=self.arrived_s,
            started_s=self.started_s,
            first_token_s=self.first_token_s,
            finished_s=now,
        )


Chunk = tuple[Sequence, int]
"""A sequence, and how many of its tokens are prefilled in a step."""


def by_priority(sequence: Sequence) -> tuple[int, int]:
    """As vLLM sorts: the smaller number first, then who came first."""
    return sequence.request.priority, sequence.order


class WaitingQueue:
    """Sequences that are not in the batch, in the order in which they are asked to start."""

    def __init__(self, *, by_priority: bool) -> None:
        self._by_priority = by_priority
        self._sequences: list[Sequence] = []

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._sequences)

    def add(self, sequence: Sequence) -> None:
        """One that came just now."""
        if self._by_priority:
            insort(self._sequences, sequence, key=by_priority)
        else:
            self._sequences.append(sequence)

    def give_back(self, sequence: Sequence) -> None:
        """One that was preempted: it goes first again, unless priorities say otherwise."""
        if self._by_priority:
            insort(self._sequences, sequence, key=by_priority)
        else:
            self._sequences.insert(0, sequence)

    def remove(self, sequence: Sequence) -> None:
        self._sequences.remove(sequence)


# Speculative decoding: a step drafts tokens for each sequence and checks all of them at once.
#
# Each drafted token is accepted with the same chance, as long as those before it were (Leviathan et al.,
# "Fast inference from transformers via speculative decoding", 2023); what was accepted comes out together
# with the token that every step makes. Whose tokens are accepted follows from the request alone, so that it
# does not depend on who else runs.
class Speculation:
    """What was drafted and accepted so far. Without drafts it costs nothing."""

    def __init__(self, draft_tokens: int, acceptance: float) -> None:
        self.draft_tokens = draft_tokens
        """For each sequence in each step; 0 drafts none."""
        self._acceptance = acceptance
        self.drafts = 0
        self.accepted = 0
        self.accepted_by_position = dict.fromkeys(range(draft_tokens), 0)

    def most_tokens(self, sequence: Sequence) -> int:
        """How many tokens a step may give a sequence that decodes: it needs blocks for so many."""
        return min(1 + self.draft_tokens, sequence.output_tokens - sequence.emitted)

    def tokens(self, sequence: Sequence) -> int:
        """How many tokens the step that ends gives it."""
        if not self.draft_tokens:
            return 1
        self.drafts += 1
        rng = sequence.rng
        if rng is None:
            rng = sequence.rng = random.Random(sequence.id)  # noqa: S311 - it must be the same again
        accepted = 0
        for position in range(self.most_tokens(sequence) - 1):
            if rng.random() >= self._acceptance:
                break
            accepted += 1
            self.accepted_by_position[position] += 1
        self.accepted += accepted
        return 1 + accepted
