"""Request bodies: what is read from them, what is refused, and how many prompt tokens they are.

Fields that do not change the simulated answer (temperature, tools, stop, ...) are accepted and not read.
"""

import re
from array import array
from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from headgate.simulator.model import LARGEST_TOKEN, Tokens, tokenize
from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.generation import Generation, Kind
from headgate.simulator.server.kv_fields import Hosts, NixlParams, Ports, Rooms, spread

MAX_CHOICES = 128
"""Sequences that one request may ask for, over all of its prompts."""

Count = Annotated[int, Meta(ge=1)]
Choices = Annotated[int, Meta(ge=1, le=MAX_CHOICES)]
TokenIds = list[int]


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool = False


class ContentPart(msgspec.Struct, frozen=True):
    type: str
    text: str | None = None


class Message(msgspec.Struct, frozen=True):
    role: str
    content: str | list[ContentPart] | None = None


class _Common(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: Choices | None = None
    max_tokens: Count | None = None
    ignore_eos: bool = False
    seed: int | None = None
    min_tokens: Annotated[int, Meta(ge=0)] = 0
    priority: int = 0
    cache_salt: Annotated[str, Meta(max_length=1024)] | None = None
    kv_transfer_params: NixlParams | None = None
    bootstrap_host: Hosts | None = None
    bootstrap_port: Ports | None = None
    bootstrap_room: Rooms | None = None


class ChatBody(_Common, frozen=True, kw_only=True):
    messages: Annotated[list[Message], Meta(min_length=1)]
    max_completion_tokens: Count | None = None


class CompletionBody(_Common, frozen=True, kw_only=True):
    prompt: str | list[str | int | TokenIds]


T = TypeVar("T")
_chat = msgspec.json.Decoder(ChatBody)
_completion = msgspec.json.Decoder(CompletionBody)


def read_chat(body: bytes) -> Generation:
    """Decode the body of /v1/chat/completions; raises `ApiError` that names the field."""
    chat = decode(_chat, body)
    return _generation("chat", chat, (chat_prompt(chat.messages),), chat.max_completion_tokens)


def read_completion(body: bytes) -> Generation:
    """Decode the body of /v1/completions; raises `ApiError` that names the field."""
    completion = decode(_completion, body)
    return _generation("completion", completion, _prompts(completion.prompt), None)


def _generation(
    kind: Kind, body: _Common, prompts: tuple[Tokens, ...], max_completion_tokens: int | None
) -> Generation:
    choices = body.n or 1
    max_tokens = max_completion_tokens or body.max_tokens
    _check(body, len(prompts), choices, max_tokens)
    return Generation(
        kind=kind,
        model=body.model,
        prompts=prompts,
        choices_per_prompt=choices,
        max_tokens=max_tokens,
        min_tokens=body.min_tokens,
        ignore_eos=body.ignore_eos,
        seed=body.seed,
        stream=body.stream,
        include_usage=body.stream_options is not None and body.stream_options.include_usage,
        priority=body.priority,
        cache_salt=body.cache_salt or "",
        kv_params=body.kv_transfer_params,
        bootstrap=spread(
            body.bootstrap_host, body.bootstrap_port, body.bootstrap_room, choices * len(prompts)
        ),
    )


def _check(body: _Common, prompts: int, choices: int, max_tokens: int | None) -> None:
    """What only several fields together show to be wrong."""
    if body.stream_options is not None and not body.stream:
        raise ApiError(
            400,
            "stream_options: can only be set when stream is true; set stream or leave it out",
            param="stream_options",
        )
    if max_tokens is not None and body.min_tokens > max_tokens:
        raise ApiError(
            400,
            f"min_tokens: must be less than or equal to max_tokens={max_tokens}, got {body.min_tokens}",
            param="min_tokens",
        )
    if choices * prompts > MAX_CHOICES:
        raise ApiError(
            400,
            f"n: {prompts} prompts x {choices} choices exceed {MAX_CHOICES} sequences; send fewer",
            param="n",
        )


def decode(decoder: "msgspec.json.Decoder[T]", body: bytes) -> T:
    """Raises `ApiError` that names the field."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        missing = re.search(r"missing required field `(\w+)`", message)
        field = (path.rstrip("`") + (f".{missing[1]}" if missing else "")).removeprefix(".")
        raise ApiError(400, f"{field}: {message}" if field else message, param=field or None) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError(400, f"The body is not valid JSON: {error}") from error
    except RecursionError as error:
        raise ApiError(400, "The body is nested too deeply") from error


def chat_prompt(messages: Sequence[Message]) -> Tokens:
    """The tokens of a conversation: those of its messages, each of which begins a token of its own."""
    prompt: Tokens = array("I")
    for index, message in enumerate(messages):
        for text in _texts(index, message):
            prompt += tokenize(text)
    return prompt or array("I", [0])  # a chat template is never empty


def _texts(index: int, message: Message) -> list[str]:
    if message.content is None:
        return []
    if isinstance(message.content, str):
        return [message.content]
    texts = []
    for position, part in enumerate(message.content):
        field = f"messages[{index}].content[{position}]"
        if part.type != "text":
            raise ApiError(
                400, f"{field}.type: {part.type!r} is not simulated, only 'text' is", param=f"{field}.type"
            )
        if part.text is None:
            raise ApiError(400, f"{field}.text: is required in a part of type 'text'", param=f"{field}.text")
        texts.append(part.text)
    return ["".join(texts)]


def _prompts(prompt: str | list[str | int | TokenIds]) -> tuple[Tokens, ...]:
    if isinstance(prompt, str):
        prompt = [prompt]
    elif prompt and all(isinstance(element, int) for element in prompt):
        return (token_ids("prompt", prompt),)
    if not prompt:
        raise ApiError(400, "prompt: must not be empty", param="prompt")
    return tuple(_prompt(f"prompt[{index}]", element) for index, element in enumerate(prompt))


def _prompt(field: str, element: str | int | TokenIds) -> Tokens:
    if isinstance(element, int):
        message = f"{field}: token ids cannot be mixed with texts or lists; send one list of ids per prompt"
        raise ApiError(400, message, param=field)
    if not element:
        raise ApiError(400, f"{field}: must not be empty", param=field)
    return tokenize(element) if isinstance(element, str) else token_ids(field, element)


def token_ids(field: str, ids: Sequence[object]) -> Tokens:
    """Ids as a client gave them."""
    try:
        return array("I", ids)  # type: ignore[arg-type]
    except OverflowError as error:
        message = f"{field}: token ids are numbers from 0 to {LARGEST_TOKEN}"
        raise ApiError(400, message, param=field) from error
