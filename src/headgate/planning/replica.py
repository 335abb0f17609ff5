"""One replica of an engine as the queueing model sees it: how long requests take at each batch size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from headgate.planning.search import Array, Flags

__all__ = ["LEAST_MS", "MAX_BATCH", "QUEUE_TO_BATCH", "ModelError", "Profile", "Replica", "Times"]

MAX_BATCH: Final = 65_536
"""Requests that a replica may run at once: the cost of the model grows with it."""
QUEUE_TO_BATCH: Final = 10
"""Requests that wait at a replica at most, as a multiple of its batch size."""
LEAST_MS: Final = 1e-6
"""No request, and no token, takes less: rates would have no number."""
_FLOOR: Final = 0.001
"""Distance of the range of rates from zero and from the highest rate, as a fraction of both."""


class ModelError(ValueError):
    """The queueing model has no answer for an input. The message names the field and the value."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Times of an engine, in milliseconds, linear in the batch size."""

    alpha_ms: float
    """A decoding step without a batch."""
    beta_ms: float
    """What each request of the batch adds to a decoding step."""
    gamma_ms: float
    """A prefill without a prompt."""
    delta_ms: float
    """What each token of the prompt adds to a prefill, per request of the batch."""

    def __post_init__(self) -> None:
        for name, value in zip(self.__struct_fields__, msgspec.structs.astuple(self), strict=True):
            if not (0 <= value < math.inf):
                raise ModelError(f"{name.removesuffix('_ms')}: {value} is not a time of at least 0 ms")


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """A replica and the mean request that it serves."""

    profile: Profile
    input_tokens: float
    """Mean tokens of a prompt; 0: nothing is prefilled."""
    output_tokens: float
    """Mean tokens of a response."""
    max_batch: int
    max_queue: int
    prompt_spread: float = 0.0
    """Variance of the tokens of prompts, as a multiple of the square of their mean; 0: all are equal."""

    def __post_init__(self) -> None:
        if not 1 <= self.max_batch <= MAX_BATCH:
            raise ModelError(f"max batch: {self.max_batch} is not from 1 to {MAX_BATCH}")
        if not 0 <= self.max_queue <= QUEUE_TO_BATCH * MAX_BATCH:
            raise ModelError(f"max queue: {self.max_queue} is not from 0 to {QUEUE_TO_BATCH * MAX_BATCH}")
        if not 0 <= self.input_tokens < math.inf:
            raise ModelError(f"input tokens: {self.input_tokens} is negative or not a number")
        if not 1 <= self.output_tokens < math.inf:
            raise ModelError(f"output tokens: {self.output_tokens} is less than 1 or not a number")
        if not 0 <= self.prompt_spread < math.inf:
            raise ModelError(f"prompt spread: {self.prompt_spread} is negative or not a number")
        if self.service_ms(1.0) < LEAST_MS:
            raise ModelError("alpha, beta, gamma, delta: a request that takes no time cannot be planned for")

    @property
    def decode_steps(self) -> float:
        """The first token comes out of the prefill; without a prompt, the only one is decoded."""
        steps = self.output_tokens - 1
        return 1.0 if steps == 0 and self.input_tokens == 0 else steps

    def prefill_ms(self, batch: float) -> float:
        if self.input_tokens == 0:
            return 0.0
        return self.profile.gamma_ms + self.profile.delta_ms * self.input_tokens * batch

    def decode_ms(self, batch: float) -> float:
        """Time of one token."""
        return self.profile.alpha_ms + self.profile.beta_ms * batch

    def service_ms(self, batch: float) -> float:
        """Time of a request if the batch stays as it is."""
        return self.prefill_ms(batch) + self.decode_steps * self.decode_ms(batch)

    def completions_per_ms(self) -> Array:
        """Completions of all requests together, at each batch size from 1."""
        batch = np.arange(1, self.max_batch + 1, dtype=float)
        fixed = self.service_ms(0.0)
        slope = self.service_ms(1.0) - fixed
        return batch / (fixed + slope * batch)

    @property
    def min_rate_per_s(self) -> float:
        """Where the search for rates begins: a replica that is almost always idle."""
        return 1000 / self.service_ms(1.0) * _FLOOR

    @property
    def max_rate_per_s(self) -> float:
        """Just below what a replica completes with a full batch."""
        return 1000 * self.max_batch / self.service_ms(float(self.max_batch)) * (1 - _FLOOR)


class Times:
    """Of many replicas, as arrays: the same as those of `Replica`."""

    def __init__(self, replicas: Sequence[Replica]) -> None:
        rows = [
            (*msgspec.structs.astuple(each.profile), *msgspec.structs.astuple(each)[1:]) for each in replicas
        ]
        columns = np.array(rows, float).T
        self._alpha_ms, self._beta_ms, gamma_ms, delta_ms, prompt, response, *others = columns
        self.batch, self.queue, self.prompt_spread = others
        self._gamma_ms: Array = np.where(prompt == 0, 0.0, gamma_ms)
        self._prompt_ms: Array = delta_ms * prompt
        self.has_prompt: Flags = prompt > 0
        self.steps: Array = np.where((response == 1) & (prompt == 0), 1.0, response - 1)
        self.full_per_ms: Array = self.batch / self.service_ms(self.batch)
        """Completions of a full batch."""
        self.min_rate_per_s: Array = 1000 / self.service_ms(1.0) * _FLOOR
        self.max_rate_per_s: Array = 1000 * self.batch / self.service_ms(self.batch) * (1 - _FLOOR)

    def prefill_ms(self, batch: Array | float) -> Array:
        return np.asarray(self._gamma_ms + self._prompt_ms * batch, float)

    def decode_ms(self, batch: Array | float) -> Array:
        return np.asarray(self._alpha_ms + self._beta_ms * batch, float)

    def service_ms(self, batch: Array | float) -> Array:
        return np.asarray(self.prefill_ms(batch) + self.steps * self.decode_ms(batch), float)
