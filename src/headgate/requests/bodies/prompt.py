"""The prompt of a request body, as bytes that only grow at their end while a conversation continues.

Its parts are joined in the order of chat templates: tools, system instructions, then messages; the last part
without its closing bracket or quote. They are the client's own bytes, not decoded a second time: other white
space or another key order makes another prompt, but each client writes its prompts in one way. Settings
before or after the prompt in the body do not matter.

Anthropic's `cache_control` marks move from message to message as a conversation grows, and are removed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import re2

from headgate.fleet.prefix import hashing
from headgate.requests.bodies import media, scan
from headgate.requests.bodies.media import Medium, Text
from headgate.requests.bodies.members import EMPTY, Fields, Prompt

MESSAGES: Final = "/v1/messages"
SEARCHED_BYTES: Final = 4096
"""Shorter prompts are not searched for images."""

HASHED_BYTES: Final = hashing.BLOCK_ENDS[-1] * hashing.BLOCK_BYTES
"""Nothing beyond this position of a prompt is hashed."""
MAX_MARKS: Final = 64
"""Of `cache_control` in one prompt; Anthropic accepts 4."""
_MARK: Final = rb',\s*"cache_control"\s*:\s*\{[^{}]*\}|"cache_control"\s*:\s*\{[^{}]*\}\s*,\s*'
_CACHE_CONTROL: Final = re.compile(_MARK)
_COUNTED_BYTES: Final = 1 << 20
"""Counted of a large list in one step, as a step blocks all other threads."""
_NULL: Final = b"null"
_BETWEEN: Final = b"\n"
"""Between the parts of a prompt."""
_decode_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


def read(fields: Fields, path: str) -> Prompt:
    """The prompt of a chat, a completion, or a request of the responses API; empty if there is none."""
    main = bytes(fields.messages or fields.input or fields.prompt)
    if len(main) < 2 or main == _NULL:
        return EMPTY
    if main[:1] == b"[" and not fields.messages:
        return _of_list(main, fields)
    return _whole(main, fields, has_marks=path == MESSAGES)


def _whole(main: bytes, fields: Fields, *, has_marks: bool = False) -> Prompt:
    text = main[:-1]
    if fields.tools or fields.instructions or fields.system:
        before = [bytes(part) for part in (fields.tools, fields.instructions, fields.system) if part]
        text = b"\n".join((*(part for part in before if part != _NULL), text))
    if has_marks and text.find(b'"cache_control"') >= 0:
        text = _CACHE_CONTROL.sub(b"", text, MAX_MARKS)
    if len(text) < SEARCHED_BYTES or not media.is_likely(text):
        return Prompt(text, len(text))
    if text.find(b";base64,") < 0 and text.find(b'"data"') < 0:
        return Prompt(text, len(text))
    return _of_segments(*media.split(text, HASHED_BYTES))


def _of_segments(texts: list[Text], found: list[Medium], size: int) -> Prompt:
    return Prompt(texts[0], size, media=tuple(found), rest=tuple(texts[1:]))


def placed(read: Prompt, model: str) -> Prompt:
    """The prompt with its media in their places, with as many tokens as this model makes of them. Copies no
    more than is hashed."""
    text, size = media.joined([read.text, *read.rest], list(read.media), model, HASHED_BYTES)
    return Prompt(text, read.size + size, media=read.media)


def _of_list(main: bytes, fields: Fields) -> Prompt:
    """Of several prompts, use the first: what endpoints have cached of the others is not considered."""
    kind = main[1:].lstrip()[:1]
    if kind.isdigit():
        return Prompt(main[:-1], len(main), tokens=main.count(b",") + 1)
    if kind in (b'"', b"["):
        first = bytes(_decode_list(main)[0])
        tokens = main.count(b",") + 1 if kind == b"[" else 0
        return Prompt(first[:-1], len(main), tokens=tokens)
    return _whole(main, fields)


Place = tuple[int, int]


def read_large(body: bytes | bytearray, places: Mapping[str, Place], path: str) -> Prompt:
    """The prompt of a large body with members at these places. Copies no more than is hashed, and nothing if
    the prompt is one member without images."""
    start, end = places.get("messages") or places.get("input") or places.get("prompt") or (0, 0)
    if end - start < 2 or body[start : start + len(_NULL)] == _NULL:
        return EMPTY
    if body[start : start + 1] == b"[" and "messages" not in places:
        first, last = scan.first_item(body, start)
        kind = body[first : first + 1]
        if kind.isdigit():
            text = _viewed(body, start, min(end - 1, start + HASHED_BYTES))
            return Prompt(text, end - start, tokens=_commas(body, start, end) + 1)
        if kind in (b'"', b"["):
            text = _viewed(body, first, min(last - 1, first + HASHED_BYTES))
            return Prompt(text, end - start, tokens=_commas(body, start, end) + 1 if kind == b"[" else 0)
    parts = [places[name] for name in ("tools", "instructions", "system") if name in places]
    parts = [(at, last) for at, last in parts if last - at != len(_NULL) or body[at:last] != _NULL]
    return _whole_large(body, [*parts, (start, end - 1)], has_marks=path == MESSAGES)


def _whole_large(body: bytes | bytearray, parts: list[Place], *, has_marks: bool) -> Prompt:
    segments: list[list[Text]] = [[]]
    found: list[Medium] = []
    kept = size = 0
    for number, (start, end) in enumerate(parts):
        most = max(HASHED_BYTES - kept, 0)
        texts: list[Text] = [_viewed(body, start, min(end, start + most))]
        length = end - start
        if media.is_likely(body, start, end):
            texts, of_part, length = media.split(body, most, start, end)
            found += of_part
        if number:
            segments[-1].append(_BETWEEN)
        segments[-1].append(texts[0])
        segments += [[text] for text in texts[1:]]
        kept += sum(map(len, texts))
        size += length
    joined = [b"".join(texts) if len(texts) > 1 else texts[0] for texts in segments]
    size += len(_BETWEEN) * (len(parts) - 1)
    if has_marks:
        unmarked = [_without_marks(text) for text in joined]
        size -= sum(map(len, joined)) - sum(map(len, unmarked))
        joined = unmarked
    return _of_segments(joined, found, size)


def _viewed(body: bytes | bytearray, start: int, end: int) -> memoryview:
    return memoryview(body)[start:end]


def _without_marks(text: bytes | memoryview) -> bytes | memoryview:
    pieces: list[bytes | memoryview] = []
    at = 0
    for _ in range(MAX_MARKS):
        found = _MARKS.search(text, at)
        if found is None:
            break
        pieces.append(text[at : found.start()])
        at = found.end()
    return b"".join((*pieces, text[at:])) if at else text


def _commas(body: bytes | bytearray, start: int, end: int) -> int:
    ends = range(start, end, _COUNTED_BYTES)
    return sum(body.count(b",", at, min(at + _COUNTED_BYTES, end)) for at in ends)


def _searched(expression: bytes) -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    return re2.compile(expression, options)


_MARKS: Final = _searched(_MARK)
