"""Speculative decoding: a step drafts tokens for each sequence and checks all of them at once.

Each drafted token is accepted with the same chance, as long as those before it were (Leviathan et al., "Fast
inference from transformers via speculative decoding", 2023); what was accepted comes out together with the
token that every step makes. Whose tokens are accepted follows from the request alone, so that it does not
depend on who else runs.
"""

import random

from headgate.simulator.model.sequence import Sequence


class Speculation:
    """What was drafted and accepted so far. Without drafts it costs nothing."""

    def __init__(self, draft_tokens: int, acceptance: float) -> None:
        self.draft_tokens = draft_tokens
        """For each sequence in each step; 0 drafts none."""
        self._acceptance = acceptance
        self.drafts = 0
        self.accepted = 0
        self.accepted_by_position = dict.fromkeys(range(draft_tokens), 0)

    def most_tokens(self, sequence: Sequence) -> int:
        """How many tokens a step may give a sequence that decodes: it needs blocks for so many."""
        return min(1 + self.draft_tokens, sequence.output_tokens - sequence.emitted)

    def tokens(self, sequence: Sequence) -> int:
        """How many tokens the step that ends gives it."""
        if not self.draft_tokens:
            return 1
        self.drafts += 1
        rng = sequence.rng
        if rng is None:
            rng = sequence.rng = random.Random(sequence.id)  # noqa: S311 - it must be the same again
        accepted = 0
        for position in range(self.most_tokens(sequence) - 1):
            if rng.random() >= self._acceptance:
                break
            accepted += 1
            self.accepted_by_position[position] += 1
        self.accepted += accepted
        return 1 + accepted
