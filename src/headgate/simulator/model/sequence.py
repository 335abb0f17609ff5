"""A request on its way through the engine: what is computed, what is emitted, which blocks it holds."""

import random

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
