"""What any body that asks for text comes to, whichever API it was written for."""

from typing import Any, Literal

import msgspec

from headgate.simulator.model import Tokens
from headgate.simulator.server.kv_fields import Bootstrap, NixlParams

ToolChoice = Literal["none", "auto", "required"]


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """A request for text."""

    model: str
    prompts: tuple[Tokens, ...]
    choices_per_prompt: int = 1
    max_tokens: int | None = None
    min_tokens: int = 0
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()
    seed: int | None = None
    stream: bool = False
    include_usage: bool = False
    logprobs: int | None = None
    """How many alternatives of each token are told; None tells no log probabilities."""
    tools: tuple[tuple[str, Any], ...] = ()
    """Name and parameter schema of each tool that may be called."""
    tool_choice: ToolChoice = "auto"
    parallel_calls: bool = True
    schema: Any = None
    """Of the answer, if that must be JSON."""
    priority: int = 0
    """The smaller goes first, on an engine that schedules by priority."""
    cache_salt: str = ""
    """Requests of other salts share no cached blocks with this one."""
    kv_params: NixlParams | None = None
    bootstrap: Bootstrap | None = None

    @property
    def prompt_sizes(self) -> tuple[int, ...]:
        return tuple(map(len, self.prompts))

    @property
    def sequences(self) -> int:
        return len(self.prompts) * self.choices_per_prompt
