"""Prompts whose prefill is observed together.

Prompts that share a step get their first tokens at once, so only the time of all of them is significant. If
first tokens are not visible, their estimated times have errors, so a group grows until it took clearly
longer than that."""

from __future__ import annotations


class PrefillGroup:
    """The prompts of one endpoint prefilled since it last learned."""

    __slots__ = ("_earlier_squares", "error_s", "is_blurred", "starts", "tokens", "took_s")

    def __init__(self) -> None:
        self.tokens = 0
        self.starts = 0.0
        """How often the endpoint was idle before one of them."""
        self.took_s = 0.0
        self.error_s = 0.0
        """Uncertainty since the endpoint was last idle, if first tokens were not seen."""
        self._earlier_squares = 0.0
        """Sum of squared uncertainties before that."""
        self.is_blurred = False
        """Whether the duration of the prompt in progress is unknown, so that nothing is learned from it."""

    def add(self, tokens: int, took_s: float, starts: float = 0.0) -> None:
        """Add prompts that took `took_s` seconds, with `starts` starts from idle."""
        self.starts += starts
        self.tokens += tokens
        self.took_s += took_s

    def is_sure(self, token_s: float) -> bool:
        """Whether the observed time clearly exceeds its uncertainty, at about `token_s` per token."""
        observed_s = max(self.took_s, self.tokens * token_s)
        return observed_s**2 >= 4.0 * (self._earlier_squares + self.error_s**2)

    def note_error(self, error_s: float) -> None:
        """Record that the time of the last first token may be off by `error_s` seconds."""
        self.error_s = max(self.error_s, error_s)

    def separate_errors(self) -> None:
        """Record that the endpoint was idle, so that further errors are independent of those so far."""
        self._earlier_squares += self.error_s**2
        self.error_s = 0.0

    def forget(self) -> None:
        """Begin another group."""
        self.tokens = 0
        self.starts = 0.0
        self.took_s = self.error_s = self._earlier_squares = 0.0
