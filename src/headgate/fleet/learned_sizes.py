"""What was learned of the sizes of prompts and responses, by model."""

from __future__ import annotations

from headgate.fleet.answer_sizes import AnswerSizes
from headgate.fleet.prompt_sizes import PromptSizes


class LearnedSizes:
    """Both start without knowledge."""

    __slots__ = ("answers", "prompts")

    def __init__(self) -> None:
        self.prompts = PromptSizes()
        self.answers = AnswerSizes()
