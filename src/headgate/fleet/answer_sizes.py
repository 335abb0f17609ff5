"""How many tokens an answer is expected to have, for each model: learned from those before it.

Scheduling counts it as work to come, limits and flow control as tokens to reserve: it is always a number of
tokens, at least 1, whether anything was learned or not.
"""

from __future__ import annotations

USUAL_TOKENS = 250
"""Of a model of which nothing is known yet; published traces of conversations have 200 to 350 on average."""
MAX_COUNTED = 64
"""Answers before it that an answer counts as much as, at least."""
MAX_MODELS = 4096


class AnswerSizes:
    """A running mean for each model: of the first answers all count alike, later it follows slowly."""

    __slots__ = ("_counts", "_means")

    def __init__(self) -> None:
        self._means: dict[str, float] = {}
        self._counts: dict[str, int] = {}

    def expected(self, model: str, most_tokens: int | None) -> int:
        """Tokens of the next answer: the mean, or USUAL_TOKENS of a model that has not answered yet, but no
        more than the client wants at most; None is no limit.

        A client's limit is no expectation: most that set one set it far above what they get.
        """
        mean = int(self._means.get(model, USUAL_TOKENS)) or 1
        return mean if most_tokens is None or most_tokens > mean else max(most_tokens, 1)

    def learn(self, model: str, tokens: int) -> None:
        """Takes an answer that has ended by itself, or at its limit."""
        count = self._counts.get(model, 0) + 1
        if count == 1 and len(self._counts) >= MAX_MODELS:
            self._means.clear()
            self._counts.clear()
        self._counts[model] = count
        mean = self._means.get(model, 0.0)
        self._means[model] = mean + (tokens - mean) / (count if count < MAX_COUNTED else MAX_COUNTED)

    def statistics(self) -> dict[str, float]:
        """Tokens of an answer, by model."""
        return {model: round(mean, 1) for model, mean in self._means.items()}
