"""The values that go into the step model and come out of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, NewType

import msgspec

RequestId = NewType("RequestId", str)
FinishReason = Literal["stop", "length", "abort"]


class RefusedError(Exception):
    """The engine does not take a request; the message is fit for the client."""


class QueueFullError(RefusedError):
    """As many requests run and wait as the engine may hold."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(
            f"Failed to enqueue request, waiting requests queue is full ({limit} requests in the engine)"
        )


class RequestTooLongError(RefusedError):
    """Prompt and output together do not fit into the model's context."""

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
    """Hashes of the prompt's blocks of the engine's block size, front first, each chained to those before it;
    one of a last block that is not full is ignored. Empty shares nothing with anyone. The hashes of an
    adapter's prompts must differ from those of the base model."""
    answer_blocks: Sequence[int] = ()
    """Hashes of the blocks behind those: first the one that the prompt began and the answer fills, each
    chained on. Read one by one as they fill. Ignored where `blocks` has not all of the prompt's."""
    adapter: str = ""
    """The adapter's name; empty for the base model."""
    priority: int = 0
    """The smaller goes first, where the engine schedules by priority."""
    received_tokens: int = 0
    """Of the prompt: keys and values that another engine computed and that are here already. The last token
    is computed all the same. They are lost with a preemption."""
    keeps_kv: bool = False
    """Whether its blocks stay after its end, for another engine to fetch, until `Engine.release_kv`."""

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
    """Of the prompt: found in the cache as the request first started."""
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
        """Mean time of each token after the first."""
        if self.first_token_s is None or self.output_tokens < 2:
            return None
        return (self.finished_s - self.first_token_s) / (self.output_tokens - 1)


class StepPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What the step under way works on, and when it ends; or several like steps together."""

    starts_s: float
    ends_s: float
    decode_sequences: int
    kv_tokens: int
    """Context that is read in the first of the steps; each further one reads `decode_sequences` more."""
    prefill_tokens: int
    """In each of the steps."""
    admitted: tuple[RequestId, ...]
    cached_tokens: tuple[int, ...]
    """For each of `admitted`: how many of its tokens it found in the cache."""
    preempted: tuple[RequestId, ...]
    steps: int = 1

    @property
    def duration_s(self) -> float:
        return self.ends_s - self.starts_s


class Emission(NamedTuple):
    """Tokens of one request. A tuple, because a full batch makes hundreds of them each step."""

    request_id: RequestId
    position: int
    """0 for the first token of the answer; of several, that of the first."""
    gap_s: float
    """Since the request's token before, to the last of these; for the first token, since its arrival."""
    tokens: int = 1
    """More than one where several steps were taken in one go, or drafted tokens were accepted."""


class StepOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What happened by the end of a step."""

    plan: StepPlan
    emitted: tuple[Emission, ...]
    finished: tuple[FinishedRequest, ...]

    @property
    def duration_s(self) -> float:
        return self.plan.duration_s
