"""What any body that asks for text comes to, whichever API it was written for."""

from typing import Literal

import msgspec

from headgate.simulator.model import Tokens
from headgate.simulator.server.kv_fields import Bootstrap, NixlParams

Kind = Literal["chat", "completion"]


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """A request for text."""

    kind: Kind
    model: str
    prompts: tuple[Tokens, ...]
    choices_per_prompt: int = 1
    max_tokens: int | None = None
    min_tokens: int = 0
    ignore_eos: bool = False
    seed: int | None = None
    stream: bool = False
    include_usage: bool = False
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
