"""Free space in an engine's KV cache, and how long a prompt waits for it.

An engine with a full cache starts no request until others end, however short its prompt.
"""

from __future__ import annotations

import math
from typing import Final

REMEMBERED_S: Final = 20.0
"""Time constant of the rate at which requests free cache space."""
STEPS: Final = 200
"""The decay is applied in this many steps; requests that end within one step count alike."""
LONGEST_WAIT_S: Final = 60.0
TIGHT_SHARE: Final = 0.25
"""`is_tight` if less than this share of the cache is free behind the waiting prompts."""


class KvCapacity:
    """KV cache of one engine, in tokens: the free space at the last reading, and the tokens freed per second.

    wait = (prompts before + own - free) / tokens freed per second
    """

    __slots__ = ("_given_back", "_given_back_at", "free_tokens", "total_tokens")

    def __init__(self) -> None:
        self.total_tokens = 0
        """0 if the engine has not reported it."""
        self.free_tokens = math.inf
        """At the last reading, which is about a second old: little compared to the size of a cache."""
        self._given_back = 0.0
        self._given_back_at = -math.inf

    def read(self, total_tokens: int, usage: float) -> None:
        """Apply a reading: the size of the cache, and the share of it in use (0 to 1)."""
        self.total_tokens = total_tokens
        self.free_tokens = total_tokens * (1.0 - usage)

    def unknown(self) -> None:
        """Record that the engine does not report its cache, or no longer does."""
        self.total_tokens, self.free_tokens = 0, math.inf

    def give_back(self, tokens: int, now: float) -> None:
        """Release the `tokens` of a request that has ended."""
        if now - self._given_back_at > REMEMBERED_S / STEPS:
            self._given_back *= math.exp((self._given_back_at - now) / REMEMBERED_S)
            self._given_back_at = now
        self._given_back += tokens

    def is_tight(self, waiting_tokens: float) -> bool:
        """Whether prompts may have to wait for cache space, behind `waiting_tokens`."""
        return waiting_tokens + TIGHT_SHARE * self.total_tokens > self.free_tokens

    def wait_s(self, tokens: float, now: float) -> float:
        """Seconds until `tokens` fit."""
        lacking = tokens - self.free_tokens
        if lacking <= 0.0:
            return 0.0
        per_s = self._given_back * math.exp((self._given_back_at - now) / REMEMBERED_S) / REMEMBERED_S
        return min(lacking / per_s, LONGEST_WAIT_S) if per_s > 0.0 else LONGEST_WAIT_S
