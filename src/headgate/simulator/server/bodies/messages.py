"""Bodies of Anthropic's Messages API."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headgate.simulator.model import Tokens, tokenize
from headgate.simulator.server.bodies.prompts import item
from headgate.simulator.server.errors import decode, wrong
from headgate.simulator.server.generation import Generation, NamedChoice, choose


class Block(msgspec.Struct, frozen=True):
    """A part of a message. Tool inputs and results are tokenized as they appear in the body."""

    type: str
    text: str = ""
    source: msgspec.Raw = msgspec.Raw()
    input: msgspec.Raw = msgspec.Raw()
    content: msgspec.Raw = msgspec.Raw()


class Turn(msgspec.Struct, frozen=True):
    role: str
    content: str | list[Block]


class Tool(msgspec.Struct, frozen=True):
    name: str
    input_schema: Any = None


class MessagesBody(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    messages: Annotated[list[Turn], Meta(min_length=1)]
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    system: str | list[Block] | None = None
    stream: bool = False
    stop_sequences: Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(max_length=64)] | None = None
    tools: list[Tool] | None = None
    tool_choice: NamedChoice | None = None


_decoder = msgspec.json.Decoder(MessagesBody)


def read_messages(body: bytes) -> Generation:
    """Decode the body of /v1/messages; raises `ApiError` that names the field."""
    asked = decode(_decoder, body)
    if asked.max_tokens is None:
        raise wrong("max_tokens", "is required")
    declared = [(tool.name, tool.input_schema) for tool in asked.tools or ()]
    tools, choice = choose(declared, _choice(asked.tool_choice))
    return Generation(
        model=asked.model,
        prompts=(_prompt(asked),),
        max_tokens=asked.max_tokens,
        stop=tuple(asked.stop_sequences or ()),
        stream=asked.stream,
        tools=tools,
        tool_choice=choice,
    )


def read_counted(body: bytes) -> Generation:
    """Decode a body for /v1/messages/count_tokens; only the prompt is used."""
    asked = decode(_decoder, body)
    return Generation(model=asked.model, prompts=(_prompt(asked),))


def _choice(choice: NamedChoice | None) -> str | NamedChoice | None:
    if choice is None or choice.type == "tool":
        return choice
    return choice.type


def _prompt(asked: MessagesBody) -> Tokens:
    prompt = tokenize(msgspec.json.encode(asked.tools).decode()) if asked.tools else tokenize("")
    if asked.system is not None:
        prompt += _tokens("system", asked.system)
    for index, turn in enumerate(asked.messages):
        prompt += _tokens(f"messages[{index}].content", turn.content)
    return prompt or tokenize(" ")


def _tokens(field: str, content: str | list[Block]) -> Tokens:
    if isinstance(content, str):
        return tokenize(content)
    tokens = tokenize("")
    for position, block in enumerate(content):
        match block.type:
            case "text":
                tokens += tokenize(block.text)
            case "image":
                tokens += item("image", bytes(block.source).decode("utf-8", "replace"))
            case "tool_use":
                tokens += tokenize(bytes(block.input).decode("utf-8", "replace"))
            case "tool_result":
                tokens += tokenize(bytes(block.content).decode("utf-8", "replace"))
            case "thinking" | "redacted_thinking":
                pass
            case other:
                raise wrong(f"{field}[{position}].type", f"{other!r} is not simulated")
    return tokens
