"""A generation request independent of its API, and the tools it may call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from headgate.simulator.model import Tokens
from headgate.simulator.server.errors import wrong
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
    """Number of alternatives reported per token; None for no log probabilities."""
    tools: tuple[tuple[str, Any], ...] = ()
    """Name and parameter schema of each tool that may be called."""
    tool_choice: ToolChoice = "auto"
    parallel_calls: bool = True
    schema: Any = None
    """JSON schema of the output, if it must be JSON."""
    priority: int = 0
    """Smaller goes first, on an engine that schedules by priority."""
    cache_salt: str = ""
    """Requests with different salts share no cached blocks."""
    kv_params: NixlParams | None = None
    bootstrap: Bootstrap | None = None

    @property
    def prompt_sizes(self) -> tuple[int, ...]:
        return tuple(map(len, self.prompts))

    @property
    def sequences(self) -> int:
        return len(self.prompts) * self.choices_per_prompt


Tool = tuple[str, Any]


class Function(msgspec.Struct, frozen=True):
    """A function by name, with the JSON schema of its parameters if declared."""

    name: str
    parameters: Any = None


class FunctionTool(msgspec.Struct, frozen=True):
    """A tool as OpenAI's chat completions declare it."""

    function: Function
    type: str = "function"


class NamedChoice(msgspec.Struct, frozen=True):
    """The tool to call, in the format of chats (`function`), or of Responses and Messages (`name`)."""

    type: str = "function"
    function: Function | None = None
    name: str | None = None


def choose(tools: Sequence[Tool], choice: str | NamedChoice | None) -> tuple[tuple[Tool, ...], ToolChoice]:
    """The tools that may be called, and whether one must be. Raises `ApiError` for an impossible choice."""
    if isinstance(choice, NamedChoice):
        wanted = choice.function.name if choice.function else choice.name
        named = tuple(tool for tool in tools if tool[0] == wanted)
        if not named:
            raise wrong("tool_choice", f"there is no tool of the name {wanted!r}")
        return named, "required"
    match choice or ("auto" if tools else "none"):
        case "none":
            return (), "none"
        case "auto":
            return tuple(tools), "auto"
        case "required" | "any":
            if not tools:
                raise wrong("tool_choice", "needs tools to choose from")
            return tuple(tools), "required"
        case other:
            raise wrong("tool_choice", f"must be none, auto, required, or a tool; got {other!r}")
