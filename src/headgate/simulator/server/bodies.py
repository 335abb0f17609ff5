"""Request bodies: what is read from them, what is refused, and how many prompt tokens they are.

Fields that do not change the simulated answer (temperature, tools, stop, ...) are accepted and not read.
"""

import re
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from headgate.simulator.model import estimate_tokens
from headgate.simulator.server.errors import ApiError

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


class ChatBody(_Common, frozen=True, kw_only=True):
    messages: Annotated[list[Message], Meta(min_length=1)]
    max_completion_tokens: Count | None = None


class CompletionBody(_Common, frozen=True, kw_only=True):
    prompt: str | list[str | int | TokenIds]


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """What either kind of request comes to."""

    kind: Literal["chat", "completion"]
    model: str
    prompts: tuple[int, ...]
    """Prompt tokens, one entry for each prompt."""
    choices_per_prompt: int
    max_tokens: int | None
    ignore_eos: bool
    seed: int | None
    stream: bool
    include_usage: bool


_Body = TypeVar("_Body", bound=_Common)
_chat = msgspec.json.Decoder(ChatBody)
_completion = msgspec.json.Decoder(CompletionBody)


def read_chat(body: bytes) -> Generation:
    """Decode the body of /v1/chat/completions; raises `ApiError` that names the field."""
    chat = _decode(_chat, body)
    characters = sum(_characters(index, message) for index, message in enumerate(chat.messages))
    return _generation("chat", chat, (estimate_tokens(characters),), chat.max_completion_tokens)


def read_completion(body: bytes) -> Generation:
    """Decode the body of /v1/completions; raises `ApiError` that names the field."""
    completion = _decode(_completion, body)
    return _generation("completion", completion, _prompts(completion.prompt), None)


def _generation(
    kind: Literal["chat", "completion"],
    body: _Common,
    prompts: tuple[int, ...],
    max_completion_tokens: int | None,
) -> Generation:
    if body.stream_options is not None and not body.stream:
        raise ApiError(
            400,
            "stream_options: can only be set when stream is true; set stream or leave it out",
            param="stream_options",
        )
    choices = body.n or 1
    if choices * len(prompts) > MAX_CHOICES:
        raise ApiError(
            400,
            f"n: {len(prompts)} prompts x {choices} choices exceed {MAX_CHOICES} sequences; send fewer",
            param="n",
        )
    return Generation(
        kind=kind,
        model=body.model,
        prompts=prompts,
        choices_per_prompt=choices,
        max_tokens=max_completion_tokens or body.max_tokens,
        ignore_eos=body.ignore_eos,
        seed=body.seed,
        stream=body.stream,
        include_usage=body.stream_options is not None and body.stream_options.include_usage,
    )


def _decode(decoder: "msgspec.json.Decoder[_Body]", body: bytes) -> _Body:
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


def _characters(index: int, message: Message) -> int:
    if message.content is None:
        return 0
    if isinstance(message.content, str):
        return len(message.content)
    total = 0
    for position, part in enumerate(message.content):
        field = f"messages[{index}].content[{position}]"
        if part.type != "text":
            raise ApiError(
                400, f"{field}.type: {part.type!r} is not simulated, only 'text' is", param=f"{field}.type"
            )
        if part.text is None:
            raise ApiError(400, f"{field}.text: is required in a part of type 'text'", param=f"{field}.text")
        total += len(part.text)
    return total


def _prompts(prompt: str | list[str | int | TokenIds]) -> tuple[int, ...]:
    if isinstance(prompt, str):
        prompt = [prompt]
    elif prompt and all(isinstance(element, int) for element in prompt):
        return (len(prompt),)
    if not prompt:
        raise ApiError(400, "prompt: must not be empty", param="prompt")
    return tuple(_prompt_tokens(index, element) for index, element in enumerate(prompt))


def _prompt_tokens(index: int, element: str | int | TokenIds) -> int:
    if isinstance(element, int):
        message = (
            f"prompt[{index}]: token ids cannot be mixed with texts or lists; send one list of ids per prompt"
        )
        raise ApiError(400, message, param=f"prompt[{index}]")
    if not element:
        raise ApiError(400, f"prompt[{index}]: must not be empty", param=f"prompt[{index}]")
    return estimate_tokens(len(element)) if isinstance(element, str) else len(element)
