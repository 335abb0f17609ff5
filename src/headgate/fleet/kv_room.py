"""The room in an engine's KV cache, and how long a prompt waits for it when there is none.

An engine that is full begins no request until others end, however little there is to prefill.
"""

from __future__ import annotations

import math

REMEMBERED_S = 20.0
"""The pace at which requests give room back is that of about so many seconds."""
STEPS = 200
"""In so many steps it is forgotten: what ends within one counts alike."""
LONGEST_WAIT_S = 60.0
TIGHT_SHARE = 0.25
"""With less room than this share of all behind the prompts that wait, it must be looked at."""


class KvRoom:
    """Of one engine, in tokens: what its last reading left free, and what ends in a second.

    wait = (prompts before + own - free) / tokens given back a second
    """

    __slots__ = ("_given_back", "_given_back_at", "free_tokens", "total_tokens")

    def __init__(self) -> None:
        self.total_tokens = 0
        """0 where the engine has not said."""
        self.free_tokens = math.inf
        """At the last reading; a reading is a second old, which is little of what a cache holds."""
        self._given_back = 0.0
        self._given_back_at = -math.inf

    def read(self, total_tokens: int, usage: float) -> None:
        """The engine has said how large its cache is, and how much of it is in use (0 to 1)."""
        self.total_tokens = total_tokens
        self.free_tokens = total_tokens * (1.0 - usage)

    def unknown(self) -> None:
        """The engine says nothing of it, or not any more."""
        self.total_tokens, self.free_tokens = 0, math.inf

    def give_back(self, tokens: int, now: float) -> None:
        """A request has ended that had so many tokens."""
        if now - self._given_back_at > REMEMBERED_S / STEPS:
            self._given_back *= math.exp((self._given_back_at - now) / REMEMBERED_S)
            self._given_back_at = now
        self._given_back += tokens

    def is_tight(self, waiting_tokens: float) -> bool:
        """Whether prompts may have to wait for room, behind those that wait already."""
        return waiting_tokens + TIGHT_SHARE * self.total_tokens > self.free_tokens

    def wait_s(self, tokens: float, now: float) -> float:
        """Seconds until there is room for so many tokens."""
        lacking = tokens - self.free_tokens
        if lacking <= 0.0:
            return 0.0
        per_s = self._given_back * math.exp((self._given_back_at - now) / REMEMBERED_S) / REMEMBERED_S
        return min(lacking / per_s, LONGEST_WAIT_S) if per_s > 0.0 else LONGEST_WAIT_S
