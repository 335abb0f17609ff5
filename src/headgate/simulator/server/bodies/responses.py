"""Bodies of OpenAI's Responses API."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headgate.simulator.model import Tokens, tokenize
from headgate.simulator.server.bodies.prompts import ContentPart, content_tokens
from headgate.simulator.server.errors import decode, wrong
from headgate.simulator.server.generation import Generation, NamedChoice, choose
from headgate.simulator.server.kv_fields import NixlParams

LOGPROBS = "message.output_text.logprobs"
"""The `include` value that requests log probabilities."""


class Item(msgspec.Struct, frozen=True):
    """A part of the input: a message, a tool call, or its result."""

    type: str = "message"
    role: str = "user"
    content: str | list[ContentPart] | None = None
    arguments: str = ""
    output: msgspec.Raw = msgspec.Raw()


class Tool(msgspec.Struct, frozen=True):
    type: str = "function"
    name: str = ""
    parameters: Any = None


class TextFormat(msgspec.Struct, frozen=True):
    type: str = "text"
    schema: Any = None


class TextSettings(msgspec.Struct, frozen=True):
    format: TextFormat | None = None


class ResponsesBody(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    input: str | Annotated[list[Item], Meta(min_length=1)]
    instructions: str | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    stream: bool = False
    text: TextSettings | None = None
    tools: list[Tool] | None = None
    tool_choice: str | NamedChoice | None = None
    include: Annotated[list[str], Meta(max_length=64)] | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    priority: int = 0
    cache_salt: Annotated[str, Meta(max_length=1024)] | None = None
    kv_transfer_params: NixlParams | None = None


_decoder = msgspec.json.Decoder(ResponsesBody)


def read_responses(body: bytes) -> Generation:
    """Decode the body of /v1/responses; raises `ApiError` that names the field."""
    asked = decode(_decoder, body)
    declared = [(tool.name, tool.parameters) for tool in asked.tools or () if tool.type == "function"]
    tools, choice = choose(declared, asked.tool_choice)
    wanted = asked.text.format if asked.text else None
    return Generation(
        model=asked.model,
        prompts=(_prompt(asked),),
        max_tokens=asked.max_output_tokens,
        stream=asked.stream,
        tools=tools,
        tool_choice=choice,
        parallel_calls=False,
        logprobs=(asked.top_logprobs or 0) if LOGPROBS in (asked.include or ()) else None,
        schema=_schema(wanted),
        priority=asked.priority,
        cache_salt=asked.cache_salt or "",
        kv_params=asked.kv_transfer_params,
    )


def _schema(wanted: TextFormat | None) -> Any:
    if wanted is None or wanted.type == "text":
        return None
    return wanted.schema if wanted.type == "json_schema" else {"type": "object"}


def _prompt(asked: ResponsesBody) -> Tokens:
    prompt = tokenize(msgspec.json.encode(asked.tools).decode()) if asked.tools else tokenize("")
    prompt += tokenize(asked.instructions or "")
    if isinstance(asked.input, str):
        return prompt + tokenize(asked.input) or tokenize(" ")
    for index, item in enumerate(asked.input):
        match item.type:
            case "message":
                prompt += content_tokens(f"input[{index}].content", item.content)
            case "function_call":
                prompt += tokenize(item.arguments)
            case "function_call_output":
                prompt += tokenize(bytes(item.output).decode("utf-8", "replace"))
            case "reasoning":
                pass
            case other:
                raise wrong(f"input[{index}].type", f"{other!r} is not simulated")
    return prompt or tokenize(" ")
