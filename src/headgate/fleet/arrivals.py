"""The size and spacing of the prompts that this gateway sends to an endpoint."""

from __future__ import annotations

import math
from typing import Final

USUAL_PROMPT_TOKENS: Final = 1000.0
"""Mean size until prompts show another."""
USUAL_SHARE: Final = 1 / 32
"""Weight of one prompt in the mean size; the first prompts count alike."""


class Arrivals:
    """The recent prompts of one endpoint."""

    __slots__ = ("_last_at", "_share", "pause_s", "prompt_tokens")

    def __init__(self) -> None:
        self.prompt_tokens = USUAL_PROMPT_TOKENS
        """Mean uncached tokens of recent prompts."""
        self.pause_s = math.inf
        """Seconds between the last two prompts."""
        self._last_at = -math.inf
        self._share = 1.0

    def add(self, uncached_tokens: int, now: float) -> None:
        self.prompt_tokens += (uncached_tokens - self.prompt_tokens) * self._share
        self._share = max(self._share / (1.0 + self._share), USUAL_SHARE)
        self.pause_s = now - self._last_at
        self._last_at = now
