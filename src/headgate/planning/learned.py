"""What was learned of each kind of engine: a model on an accelerator.

A caller turns each reading of a model's load into an observation, `of_load`, adds it, and plans with
`profile_of`, which is the spec's profile as long as nothing better is known.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final, TypeAlias

import msgspec

from headgate.planning.fitting import Fitted, Observation, ProfileFit, StateError
from headgate.planning.replica import Profile

__all__ = ["Key", "LearnedProfiles", "of_load"]

Key: TypeAlias = tuple[str, ...]
"""Engines with equal keys are taken for equal: namespace, model, accelerator, and how many of them a replica
has."""

MAX_KEYS: Final = 4096
FULLEST: Final = 0.8
"""Share of the largest batch above which requests may have waited for a place."""


class LearnedProfiles:
    """A fit for each kind of engine. Times are seconds of any one clock."""

    def __init__(self) -> None:
        self._fits: dict[Key, ProfileFit] = {}
        self._fitted: dict[Key, tuple[Profile, Fitted]] = {}

    def observe(
        self,
        key: Key,
        batch: float,
        prompt_tokens: float,
        ttft_ms: float,
        itl_ms: float,
        now: float,
    ) -> bool:
        """Learn what requests of one replica experienced on average; False if the numbers are of no engine.

        `ttft_ms` does not include the time in queues. Times of 0 are unknown.
        """
        fit = self._fits.get(key)
        if fit is None:
            if len(self._fits) >= MAX_KEYS:
                return False
            fit = self._fits[key] = ProfileFit()
        self._fitted.pop(key, None)
        seen = Observation(batch=batch, prompt_tokens=prompt_tokens, ttft_ms=ttft_ms, itl_ms=itl_ms)
        return fit.observe(seen, now)

    def fitted(self, key: Key, spec: Profile) -> Fitted | None:
        """What was learned, and how sure it is; None without an observation."""
        fit = self._fits.get(key)
        if fit is None:
            return None
        known = self._fitted.get(key)
        if known is None or known[0] != spec:
            known = self._fitted[key] = spec, fit.fitted(spec)
        return known[1]

    def profile_of(self, key: Key, spec: Profile) -> Profile:
        """The profile to plan with."""
        fitted = self.fitted(key, spec)
        return spec if fitted is None else fitted.profile

    def keep_only(self, keys: Collection[Key]) -> None:
        """Forget all other kinds."""
        for key in self._fits.keys() - keys:
            del self._fits[key]
            self._fitted.pop(key, None)

    def dump(self) -> bytes:
        """The state as JSON."""
        return msgspec.json.encode([[key, msgspec.Raw(fit.dump())] for key, fit in self._fits.items()])

    @classmethod
    def load(cls, data: bytes) -> LearnedProfiles:
        """From the state; raises StateError."""
        made = cls()
        try:
            rows = msgspec.json.decode(data, type=list[tuple[tuple[str, ...], msgspec.Raw]])
        except (msgspec.DecodeError, RecursionError) as error:
            raise StateError(f"not the state of learned profiles: {error}") from error
        for key, fit in rows[:MAX_KEYS]:
            made._fits[key] = ProfileFit.load(bytes(fit))
        return made


def of_load(
    *,
    arrivals_per_s: float,
    prompt_tokens: float,
    output_tokens: float,
    ttft_ms: float,
    itl_ms: float,
    replicas: int,
    max_batch: int,
    cached_share: float = 0.0,
    waiting: int = 0,
) -> Observation | None:
    """An observation from the mean load of equal replicas; None if it tells nothing of the engine.

    By Little's law, arrivals times the time of a request is the mean number of requests in service. A request
    finds that many others, since arrivals are random, and is one itself. While requests wait, or nearly all
    places are taken, TTFT is no time of the engine alone.
    """
    amounts = (arrivals_per_s, prompt_tokens, output_tokens, ttft_ms, itl_ms)
    if not all(0 < amount < math.inf for amount in amounts) or replicas < 1 or waiting > 0:
        return None
    if not 0 <= cached_share < 1:
        return None
    service_ms = ttft_ms + max(output_tokens - 1, 0) * itl_ms
    batch = 1 + arrivals_per_s / replicas * service_ms / 1000
    if not batch <= FULLEST * max_batch:
        return None
    uncached = prompt_tokens * (1 - cached_share)
    return Observation(batch=batch, prompt_tokens=uncached, ttft_ms=ttft_ms, itl_ms=itl_ms)
