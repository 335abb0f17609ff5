"""Inputs and outputs of the step model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, NewType

import msgspec

RequestId = NewType("RequestId", str)
FinishReason = Literal["stop", "length", "abort"]


class RefusedError(Exception):
    """The engine rejects a request; the message can be shown to the client."""


class QueueFullError(RefusedError):
    """The engine already has as many requests as it may hold."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(
            f"Failed to enqueue request, waiting requests queue is full ({limit} requests in the engine)"
        )


class RequestTooLongError(RefusedError):
    """Prompt and output together exceed the model's context."""

    def __init__(self, prompt_tokens: int, output_tokens: int, max_model_len: int) -> None:
        super().__init__(
            f"This model's maximum context length is {max_model_len} tokens. However, you requested "
            f"{prompt_tokens + output_tokens} tokens ({prompt_tokens} in the prompt, {output_tokens} in the "
            f"completion). Please reduce the length of the prompt or completion."
        )


class SimulatedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One sequence to generate: `output_tokens` tokens after `prompt_tokens`, ending with `finish_reason`."""

    request_id: RequestId
    prompt_tokens: int
    output_tokens: int
    finish_reason: FinishReason = "length"
    blocks: Sequence[int] = ()
    """Hashes of the prompt's blocks at the engine's block size, front first, each chained to those before it;
    a hash of a partial last block is ignored. Empty if nothing is shared. Hashes for an adapter must differ
    from those of the base model.
    """
    answer_blocks: Sequence[int] = ()
    """Hashes of the following blocks, chained on: first the block that the prompt began and the output fills.
    Read one by one as they fill. Ignored if `blocks` does not cover the prompt.
    """
    adapter: str = ""
    """The adapter's name; empty for the base model."""
    priority: int = 0
    """Smaller goes first, if the engine schedules by priority."""
    received_tokens: int = 0
    """Prompt tokens whose keys and values were computed by another engine and have arrived. The last token is
    computed anyway. A preemption loses them.
    """
    keeps_kv: bool = False
    """Whether its blocks stay after it ends, for another engine to fetch, until `Engine.release_kv`."""

    def __post_init__(self) -> None:
        if self.prompt_tokens < 1 or self.output_tokens < 1:
            raise ValueError(
                f"request {self.request_id}: prompt_tokens and output_tokens must be at least 1, "
                f"got {self.prompt_tokens} and {self.output_tokens}"
            )


class FinishedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How one request ended, and when each of its phases began. Times are the driver's seconds."""

    request_id: RequestId
    reason: FinishReason
    prompt_tokens: int
    output_tokens: int
    preemptions: int
    cached_tokens: int = 0
    """Prompt tokens found in the cache when the request first started."""
    arrived_s: float
    started_s: float | None
    first_token_s: float | None
    finished_s: float

    @property
    def queue_s(self) -> float | None:
        """From arrival to the first step that worked on it."""
        return None if self.started_s is None else self.started_s - self.arrived_s

    @property
    def ttft_s(self) -> float | None:
        """From arrival to the first token."""
        return None if self.first_token_s is None else self.first_token_s - self.arrived_s

    @property
    def tpot_s(self) -> float | None:
        """Mean time per token after the first."""
        if self.first_token_s is None or self.output_tokens < 2:
            return None
        return (self.finished_s - self.first_token_s) / (self.output_tokens - 1)


class StepPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The work and the end of the current step, or of several equal steps together."""

    starts_s: float
    ends_s: float
    decode_sequences: int
    kv_tokens: int
    """Context read in the first of the steps; each further one reads `decode_sequences` more."""
    prefill_tokens: int
    """In each of the steps."""
    admitted: tuple[RequestId, ...]
    cached_tokens: tuple[int, ...]
    """For each of `admitted`: how many of its tokens were cached."""
    preempted: tuple[RequestId, ...]
    steps: int = 1

    @property
    def duration_s(self) -> float:
        return self.ends_s - self.starts_s


class Emission(NamedTuple):
    """Tokens of one request. A tuple, because a full batch creates hundreds per step."""

    request_id: RequestId
    position: int
    """0 for the first output token; for several tokens, the position of the first."""
    gap_s: float
    """Time since the request's previous token, to the last of these; for the first, since its arrival."""
    tokens: int = 1
    """More than one if several steps were run at once, or drafted tokens were accepted."""


class StepOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a step."""

    plan: StepPlan
    emitted: tuple[Emission, ...]
    finished: tuple[FinishedRequest, ...]

    @property
    def duration_s(self) -> float:
        return self.plan.duration_s
