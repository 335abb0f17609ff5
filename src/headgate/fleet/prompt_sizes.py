"""How many bytes of a prompt make a token, for each model: learned from what engines count.

Of plain ASCII that is all. Other scripts are weighed first (`fleet.scripts`), and how far off that is for a
model is learned for each script apart: an older vocabulary makes three tokens of a Chinese character.
"""

from __future__ import annotations

from headgate.fleet.scripts import LATIN, Amounts

BYTES_PER_TOKEN = 4.0
"""Of a model of which nothing is known yet: English text in most vocabularies, with the JSON around it."""
MIN_BYTES = 512
"""Of shorter prompts, most tokens are the template's."""
MIN_BYTES_PER_TOKEN, MAX_BYTES_PER_TOKEN = 1.0, 16.0
MAX_COUNTED = 32
"""Prompts before it that a prompt counts as much as, at least."""
LEARNED_OF = 8
"""After so many, one prompt of so many is enough to follow."""
FARTHEST = 1.5
"""A prompt of which the figure is off by more counts as if it were by so much: a hundred pages of digits, or
an image that was guessed wrong, must not change what is known of all others."""
MIN_SHARE = 0.3
"""Of a prompt's tokens, for its count to tell anything of a script other than Latin."""
MAX_MODELS = 4096


class _Running:
    """A running mean: the first figures all count alike, later it follows slowly."""

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
    """Learned from prompts that engines have counted."""

    __slots__ = ("_ratios", "_scripts")

    def __init__(self) -> None:
        self._ratios: dict[str, _Running] = {}
        self._scripts: dict[tuple[str, str], _Running] = {}
        """Bytes per token of a script other than Latin, as `scripts` weighs them."""

    def bytes_per_token(self, model: str) -> float:
        """Of a prompt in ASCII."""
        known = self._ratios.get(model)
        return BYTES_PER_TOKEN if known is None else known.value

    def tokens(self, model: str, amounts: Amounts) -> float:
        """Of a prompt that is not all ASCII."""
        return sum(self._by_script(model, amounts).values())

    def _by_script(self, model: str, amounts: Amounts) -> dict[str, float]:
        return {script: amount / self._ratio(model, script) for script, amount in amounts.items()}

    def _ratio(self, model: str, script: str) -> float:
        if script == LATIN:
            return self.bytes_per_token(model)
        known = self._scripts.get((model, script))
        return BYTES_PER_TOKEN if known is None else known.value

    def learn(self, model: str, size: int, tokens: int, amounts: Amounts | None = None) -> None:
        """Takes a prompt of `size` bytes, of which the engine says how many tokens it is, with its `amounts`
        if it is not all ASCII."""
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
        """What the Latin part is taken for is taken off; the rest is shared out as the parts of it were
        estimated."""
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
        """Bytes per token, by model; of other scripts, as they are weighed."""
        told = {model: round(known.value, 3) for model, known in self._ratios.items()}
        for (model, script), known in self._scripts.items():
            told[f"{model} ({script})"] = round(known.value, 3)
        return told
