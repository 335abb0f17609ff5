"""How many bytes of a prompt make a token, for each model: learned from what engines count."""

from __future__ import annotations

BYTES_PER_TOKEN = 4.0
"""Of a model of which nothing is known yet: English text in most vocabularies, with the JSON around it."""
LEAST_BYTES = 512
"""Of shorter prompts, most tokens are the template's."""
LEAST, MOST = 1.0, 16.0
MOST_COUNTED = 32
"""Prompts before it that a prompt counts as much as, at least."""
LEARNED_OF = 8
"""After so many, one prompt of so many is enough to follow."""
FARTHEST = 1.5
"""A prompt of which the figure is off by more counts as if it were by so much: a hundred pages of digits, or
an image that was guessed wrong, must not change what is known of all others."""
MAX_MODELS = 4096


class PromptSizes:
    """A running mean for each model: of the first prompts all count alike, later it follows slowly."""

    __slots__ = ("_counts", "_ratios")

    def __init__(self) -> None:
        self._ratios: dict[str, float] = {}
        self._counts: dict[str, int] = {}

    def bytes_per_token(self, model: str) -> float:
        return self._ratios.get(model, BYTES_PER_TOKEN)

    def learn(self, model: str, size: int, tokens: int) -> None:
        """Takes a prompt of `size` bytes, of which the engine says how many tokens it is."""
        if size < LEAST_BYTES or tokens <= 0:
            return
        known = self._ratios.get(model)
        if known is None:
            if len(self._ratios) >= MAX_MODELS:
                self._ratios.clear()
                self._counts.clear()
            self._ratios[model] = min(max(size / tokens, LEAST), MOST)
            self._counts[model] = 1
            return
        count = self._counts[model] = self._counts[model] + 1
        if count > MOST_COUNTED and count % LEARNED_OF:
            return
        seen = min(max(size / tokens, known / FARTHEST), known * FARTHEST)
        step = 1 / min(count, MOST_COUNTED)
        self._ratios[model] = min(max(known + step * (seen - known), LEAST), MOST)

    def statistics(self) -> dict[str, float]:
        """Bytes per token, by model."""
        return {model: round(ratio, 3) for model, ratio in self._ratios.items()}
