"""Bytes per prompt token of each model, learned from what engines count.

For plain ASCII that is all. Other scripts are weighed first (`fleet.scripts`), and the error is learned per
model and script: an older vocabulary makes three tokens of a Chinese character.
"""

from __future__ import annotations

from typing import Final

from headgate.fleet.scripts import LATIN, Amounts

BYTES_PER_TOKEN: Final = 4.0
"""Of a new model: English text in most vocabularies, with its JSON."""
MIN_BYTES: Final = 512
"""Most tokens of a shorter prompt are the template's."""
MIN_BYTES_PER_TOKEN, MAX_BYTES_PER_TOKEN = 1.0, 16.0
MAX_COUNTED: Final = 32
"""The mean averages about this many prompts."""
LEARNED_OF: Final = 8
"""After MAX_COUNTED prompts, only every 8th is learned."""
FARTHEST: Final = 1.5
"""A prompt that deviates by more counts as if it deviated by this factor: a hundred pages of digits, or a
misjudged image, must not change the estimate of all others."""
MIN_SHARE: Final = 0.3
"""Least share of a prompt's tokens that is in scripts other than Latin, for its count to say anything about
them."""
MAX_MODELS = 4096


class _Running:
    """A running mean: an exact mean of the first values, then an exponential one."""

    __slots__ = ("count", "value")

    def __init__(self, first: float) -> None:
        self.value = first
        self.count = 1

    def follow(self, seen: float, weight: float = 1.0) -> None:
        self.count += 1
        if self.count > MAX_COUNTED and self.count % LEARNED_OF:
            return
        known = self.value
        near = min(max(seen, known / FARTHEST), known * FARTHEST)
        self.value = known + weight / min(self.count, MAX_COUNTED) * (near - known)


class PromptSizes:
    """Ratios learned from prompts that engines have counted."""

    __slots__ = ("_ratios", "_scripts")

    def __init__(self) -> None:
        self._ratios: dict[str, _Running] = {}
        self._scripts: dict[tuple[str, str], _Running] = {}
        """Bytes per token of a script other than Latin, as `scripts` weighs them."""

    def bytes_per_token(self, model: str) -> float:
        """Ratio of an ASCII prompt."""
        known = self._ratios.get(model)
        return BYTES_PER_TOKEN if known is None else known.value

    def tokens(self, model: str, amounts: Amounts) -> float:
        """Tokens of a prompt that is not all ASCII."""
        return sum(self._by_script(model, amounts).values())

    def _by_script(self, model: str, amounts: Amounts) -> dict[str, float]:
        return {script: amount / self._ratio(model, script) for script, amount in amounts.items()}

    def _ratio(self, model: str, script: str) -> float:
        if script == LATIN:
            return self.bytes_per_token(model)
        known = self._scripts.get((model, script))
        return BYTES_PER_TOKEN if known is None else known.value

    def learn(self, model: str, size: int, tokens: int, amounts: Amounts | None = None) -> None:
        """Learn from a prompt of `size` bytes that the engine counted as `tokens`, with its `amounts` if it
        is not all ASCII."""
        if size < MIN_BYTES or tokens <= 0:
            return
        if amounts is not None:
            self._learn_scripts(model, tokens, amounts)
            return
        known, seen = (
            self._ratios.get(model),
            min(max(size / tokens, MIN_BYTES_PER_TOKEN), MAX_BYTES_PER_TOKEN),
        )
        if known is not None:
            known.follow(seen)
            return
        if len(self._ratios) >= MAX_MODELS:
            self._ratios.clear()
        self._ratios[model] = _Running(seen)

    def _learn_scripts(self, model: str, tokens: int, amounts: Amounts) -> None:
        """Subtract the estimated Latin tokens, and distribute the rest in proportion to the estimates of the
        other scripts."""
        estimated = self._by_script(model, amounts)
        latin = estimated.pop(LATIN, 0.0)
        others = sum(estimated.values())
        if others < MIN_SHARE * (latin + others):
            return
        off = max(tokens - latin, others / MAX_BYTES_PER_TOKEN) / others
        for script, each in estimated.items():
            key, seen = (
                (model, script),
                min(max(self._ratio(model, script) / off, MIN_BYTES_PER_TOKEN / 2), MAX_BYTES_PER_TOKEN),
            )
            known = self._scripts.get(key)
            if known is not None:
                known.follow(seen, each / others)
            elif each >= MIN_SHARE * others:
                if len(self._scripts) >= MAX_MODELS:
                    self._scripts.clear()
                self._scripts[key] = _Running(seen)

    def statistics(self) -> dict[str, float]:
        """Bytes per token, by model; for other scripts, of their weighed bytes."""
        told = {model: round(known.value, 3) for model, known in self._ratios.items()}
        for (model, script), known in self._scripts.items():
            told[f"{model} ({script})"] = round(known.value, 3)
        return told
