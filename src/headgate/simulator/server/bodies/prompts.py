"""Tokenize prompts: conversations, texts, token IDs, images."""

from array import array
from collections.abc import Sequence

import msgspec
import xxhash

from headgate.simulator.model import LARGEST_TOKEN, Tokens, tokenize
from headgate.simulator.server.errors import wrong

TokenIds = list[int]
_SIZES = {"image": 256, "audio": 128, "video": 1024}
"""Tokens of each, whatever its size."""


class Url(msgspec.Struct, frozen=True):
    url: str


class Audio(msgspec.Struct, frozen=True):
    data: str


class ContentPart(msgspec.Struct, frozen=True):
    """A part of a message: text or other media, in chats and in the Responses API."""

    type: str
    text: str | None = None
    image_url: Url | str | None = None
    audio_url: Url | str | None = None
    video_url: Url | str | None = None
    input_audio: Audio | None = None


class Message(msgspec.Struct, frozen=True):
    """A turn of a chat. Tool calls are tokenized as they appear in the body."""

    role: str
    content: str | list[ContentPart] | None = None
    tool_calls: msgspec.Raw = msgspec.Raw()


_SOURCES = {
    "image_url": ("image", "image_url"),
    "input_image": ("image", "image_url"),
    "audio_url": ("audio", "audio_url"),
    "input_audio": ("audio", "input_audio"),
    "video_url": ("video", "video_url"),
}
"""Modality of each part type, and the field with its content."""


def chat_prompt(messages: Sequence[Message], tools: bytes = b"") -> Tokens:
    """The tokens of a conversation; each message starts a new token.

    Tools come first, as in most chat templates.
    """
    prompt = tokenize(tools.decode("utf-8", "replace"))
    for index, message in enumerate(messages):
        prompt += content_tokens(f"messages[{index}].content", message.content)
        if bytes(message.tool_calls) not in (b"", b"null"):
            prompt += tokenize(bytes(message.tool_calls).decode("utf-8", "replace"))
    return prompt or array("I", [0])  # a chat template is never empty


def content_tokens(field: str, content: str | Sequence[ContentPart] | None) -> Tokens:
    """The tokens of one message."""
    if content is None:
        return array("I")
    if isinstance(content, str):
        return tokenize(content)
    text = ""
    others: Tokens = array("I")
    for position, part in enumerate(content):
        if part.type in ("text", "input_text", "output_text"):
            if part.text is None:
                raise wrong(f"{field}[{position}].text", f"is required in a part of type {part.type!r}")
            text += part.text
        elif part.type in _SOURCES:
            others += _other(f"{field}[{position}]", part)
        else:
            problem = f"{part.type!r} is not simulated, only text and {', '.join(_SOURCES)} are"
            raise wrong(f"{field}[{position}].type", problem)
    return others + tokenize(text)


def item(modality: str, name: str) -> Tokens:
    """Tokens derived from an address or content, so that caches tell different ones apart."""
    first = xxhash.xxh32_intdigest(name.encode("utf-8", "surrogatepass"))
    return array("I", [(first + position) & LARGEST_TOKEN for position in range(_SIZES[modality])])


def text_prompts(prompt: str | list[str | int | TokenIds]) -> tuple[Tokens, ...]:
    """Prompts in all forms of OpenAI's completions."""
    if isinstance(prompt, str):
        prompt = [prompt]
    elif prompt and all(isinstance(element, int) for element in prompt):
        return (token_ids("prompt", prompt),)
    if not prompt:
        raise wrong("prompt", "must not be empty")
    return tuple(_prompt(f"prompt[{index}]", element) for index, element in enumerate(prompt))


def token_ids(field: str, ids: Sequence[object]) -> Tokens:
    """Validate the token IDs of a client."""
    try:
        return array("I", ids)  # type: ignore[arg-type]
    except OverflowError as error:
        raise wrong(field, f"token ids are numbers from 0 to {LARGEST_TOKEN}") from error


def _prompt(field: str, element: str | int | TokenIds) -> Tokens:
    if isinstance(element, int):
        raise wrong(field, "token ids cannot be mixed with texts or lists; send one list of ids per prompt")
    if not element:
        raise wrong(field, "must not be empty")
    return tokenize(element) if isinstance(element, str) else token_ids(field, element)


def _other(field: str, part: ContentPart) -> Tokens:
    modality, source = _SOURCES[part.type]
    value = getattr(part, source)
    name = value.url if isinstance(value, Url) else value.data if isinstance(value, Audio) else value
    if not name:
        raise wrong(f"{field}.{source}", f"is required in a part of type {part.type!r}")
    return item(modality, name)
