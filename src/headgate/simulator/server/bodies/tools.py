"""The tools of a request, and whether one is to be called."""

from collections.abc import Sequence
from typing import Any

import msgspec

from headgate.simulator.server.bodies.decoding import wrong
from headgate.simulator.server.generation import ToolChoice

Tool = tuple[str, Any]


class Function(msgspec.Struct, frozen=True):
    """A function by its name, with the JSON schema of its parameters where it is declared."""

    name: str
    parameters: Any = None


class FunctionTool(msgspec.Struct, frozen=True):
    """A tool as OpenAI's chats declare it."""

    function: Function
    type: str = "function"


class NamedChoice(msgspec.Struct, frozen=True):
    """The tool that is to be called, as chats (`function`) or as Responses and Messages (`name`) say it."""

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
