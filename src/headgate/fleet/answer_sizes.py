"""Expected number of tokens in a response, learned per model from past responses.

Scheduling counts it as future work; limits and flow control reserve it. The result is always at least 1, even
before anything was learned.
"""

from __future__ import annotations

from typing import Final

USUAL_TOKENS: Final = 250
"""Expected tokens for a model without any response yet. Published conversation traces average 200 to 350."""
MAX_COUNTED: Final = 64
"""Each response moves the mean by at least 1/64."""
MAX_MODELS = 4096


class AnswerSizes:
    """One running mean per model: an exact mean of the first responses, then an exponential one."""

    __slots__ = ("_counts", "_means")

    def __init__(self) -> None:
        self._means: dict[str, float] = {}
        self._counts: dict[str, int] = {}

    def expected(self, model: str, most_tokens: int | None) -> int:
        """Expected tokens of the next response: the mean (USUAL_TOKENS for a new model), capped at the
        client's limit `most_tokens`; None is no limit.

        The limit is only a cap, not an estimate: most clients that set one set it far above what they get.
        """
        mean = int(self._means.get(model, USUAL_TOKENS)) or 1
        return mean if most_tokens is None or most_tokens > mean else max(most_tokens, 1)

    def learn(self, model: str, tokens: int) -> None:
        """Learn from a response that ended by itself or at its limit."""
        count = self._counts.get(model, 0) + 1
        if count == 1 and len(self._counts) >= MAX_MODELS:
            self._means.clear()
            self._counts.clear()
        self._counts[model] = count
        mean = self._means.get(model, 0.0)
        self._means[model] = mean + (tokens - mean) / (count if count < MAX_COUNTED else MAX_COUNTED)

    def statistics(self) -> dict[str, float]:
        """Mean tokens of a response, by model."""
        return {model: round(mean, 1) for model, mean in self._means.items()}
