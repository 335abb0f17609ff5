"""Bodies of OpenAI's chat completions and completions."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headgate.simulator.model import Tokens
from headgate.simulator.server.bodies.prompts import (
    Message,
    TokenIds,
    chat_prompt,
    text_prompts,
)
from headgate.simulator.server.errors import decode, wrong
from headgate.simulator.server.generation import FunctionTool, Generation, NamedChoice, choose
from headgate.simulator.server.kv_fields import Hosts, NixlParams, Ports, Rooms, spread

MAX_CHOICES = 128
"""Maximum sequences of one request, over all of its prompts."""

Count = Annotated[int, Meta(ge=1)]
Choices = Annotated[int, Meta(ge=1, le=MAX_CHOICES)]
StopString = Annotated[str, Meta(min_length=1, max_length=1024)]
StopStrings = StopString | Annotated[list[StopString], Meta(max_length=64)]


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool = False


class JsonSchema(msgspec.Struct, frozen=True):
    schema: Any = None


class ResponseFormat(msgspec.Struct, frozen=True):
    type: str = "text"
    json_schema: JsonSchema | None = None

    def schema(self) -> Any:
        """The JSON schema of the output; None for plain text."""
        if self.type == "json_schema" and self.json_schema is not None:
            return self.json_schema.schema
        return {"type": "object"} if self.type == "json_object" else None


class _Common(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: Choices | None = None
    max_tokens: Count | None = None
    min_tokens: Annotated[int, Meta(ge=0)] = 0
    ignore_eos: bool = False
    stop: StopStrings | None = None
    seed: int | None = None
    response_format: ResponseFormat | None = None
    priority: int = 0
    cache_salt: Annotated[str, Meta(max_length=1024)] | None = None
    kv_transfer_params: NixlParams | None = None
    bootstrap_host: Hosts | None = None
    bootstrap_port: Ports | None = None
    bootstrap_room: Rooms | None = None


class ChatBody(_Common, frozen=True, kw_only=True):
    messages: Annotated[list[Message], Meta(min_length=1)]
    max_completion_tokens: Count | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    tools: list[FunctionTool] | None = None
    tool_choice: str | NamedChoice | None = None
    parallel_tool_calls: bool | None = None


class CompletionBody(_Common, frozen=True, kw_only=True):
    prompt: str | list[str | int | TokenIds]
    logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None


_chat = msgspec.json.Decoder(ChatBody)
_completion = msgspec.json.Decoder(CompletionBody)


def read_chat(body: bytes) -> Generation:
    """Decode the body of /v1/chat/completions; raises `ApiError` that names the field."""
    chat = decode(_chat, body)
    if chat.top_logprobs and not chat.logprobs:
        raise wrong("top_logprobs", "can only be set when logprobs is true")
    declared = [(tool.function.name, tool.function.parameters) for tool in chat.tools or ()]
    tools, choice = choose(declared, chat.tool_choice)
    prompt = chat_prompt(chat.messages, msgspec.json.encode(chat.tools) if chat.tools else b"")
    common = _generation(chat, (prompt,), chat.max_completion_tokens)
    return msgspec.structs.replace(
        common,
        logprobs=(chat.top_logprobs or 0) if chat.logprobs else None,
        tools=tools,
        tool_choice=choice,
        parallel_calls=chat.parallel_tool_calls is not False,
    )


def read_completion(body: bytes) -> Generation:
    """Decode the body of /v1/completions; raises `ApiError` that names the field."""
    completion = decode(_completion, body)
    common = _generation(completion, text_prompts(completion.prompt), None)
    return msgspec.structs.replace(common, logprobs=completion.logprobs)


def _generation(body: _Common, prompts: tuple[Tokens, ...], max_completion_tokens: int | None) -> Generation:
    choices = body.n or 1
    max_tokens = max_completion_tokens or body.max_tokens
    _check(body, len(prompts), choices, max_tokens)
    return Generation(
        model=body.model,
        prompts=prompts,
        choices_per_prompt=choices,
        max_tokens=max_tokens,
        min_tokens=body.min_tokens,
        ignore_eos=body.ignore_eos,
        stop=(body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ()),
        seed=body.seed,
        stream=body.stream,
        include_usage=body.stream_options is not None and body.stream_options.include_usage,
        schema=body.response_format.schema() if body.response_format else None,
        priority=body.priority,
        cache_salt=body.cache_salt or "",
        kv_params=body.kv_transfer_params,
        bootstrap=spread(
            body.bootstrap_host, body.bootstrap_port, body.bootstrap_room, choices * len(prompts)
        ),
    )


def _check(body: _Common, prompts: int, choices: int, max_tokens: int | None) -> None:
    """Reject invalid combinations of fields."""
    if body.stream_options is not None and not body.stream:
        raise wrong("stream_options", "can only be set when stream is true; set stream or leave it out")
    if max_tokens is not None and body.min_tokens > max_tokens:
        problem = f"must be less than or equal to max_tokens={max_tokens}, got {body.min_tokens}"
        raise wrong("min_tokens", problem)
    if choices * prompts > MAX_CHOICES:
        problem = f"{prompts} prompts x {choices} choices exceed {MAX_CHOICES} sequences; send fewer"
        raise wrong("n", problem)
