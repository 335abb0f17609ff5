"""The size and spacing of the prompts that an endpoint gets."""

from __future__ import annotations

import math
from typing import Final

USUAL_PROMPT_TOKENS: Final = 1000.0
"""Mean size until prompts show another."""
USUAL_SHARE: Final = 1 / 32
"""Weight of one prompt in the mean size; the first prompts count alike."""


class Arrivals:
    """The recent prompts of one endpoint."""

    __slots__ = ("_elsewhere", "_last_at", "_share", "pause_s", "prompt_tokens")

    def __init__(self) -> None:
        self.prompt_tokens = USUAL_PROMPT_TOKENS
        """Mean uncached tokens of recent prompts of this gateway."""
        self.pause_s = math.inf
        """Seconds between two recent prompts, of any gateway that reports them."""
        self._elsewhere = 0
        """Prompts of others since the last one of this gateway."""
        self._last_at = -math.inf
        self._share = 1.0

    def add(self, uncached_tokens: int, now: float) -> None:
        self.prompt_tokens += (uncached_tokens - self.prompt_tokens) * self._share
        self._share = max(self._share / (1.0 + self._share), USUAL_SHARE)
        self.pause_s = now - self._last_at
        if self._elsewhere:
            self.pause_s /= 1 + self._elsewhere
            self._elsewhere = 0
        self._last_at = now

    def add_elsewhere(self, prompts: int) -> None:
        """Count prompts that others have sent."""
        if prompts > 0:
            self._elsewhere += prompts
