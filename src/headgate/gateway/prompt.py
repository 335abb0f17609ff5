"""The prompt in a request's body, as bytes that grow only at their end while a conversation goes on.

Its parts are put together in the order in which chat templates put them: tools, what the system says, then
the messages; the last part without the bracket or the quote that ends it. They are the client's own bytes,
not decoded a second time: a client that writes the same conversation with other white space or another order
of keys begins another prompt, and each client writes its own in one way. Settings of the request that come
before or after the prompt in its body do not matter.

Anthropic's `cache_control` marks wander from message to message as a conversation grows, and are left out.
"""

from __future__ import annotations

import re

import msgspec

from headgate.gateway import media
from headgate.gateway.inspect import Fields

MESSAGES = "/v1/messages"
SEARCHED_BYTES = 4096
"""Shorter prompts are not searched for images."""

_CACHE_CONTROL = re.compile(rb',\s*"cache_control"\s*:\s*\{[^{}]*\}|"cache_control"\s*:\s*\{[^{}]*\}\s*,\s*')
_NULL = b"null"
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Prompt(msgspec.Struct, frozen=True, gc=False):
    """What is hashed of a request, and how long it is."""

    text: bytes
    size: int
    """In bytes of text, of all prompts where there is a list of them."""
    tokens: int = 0
    """How many they are, where the client sent token ids; 0 otherwise."""
    has_media: bool = False


EMPTY = Prompt(b"", 0)


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
    if has_marks and b'"cache_control"' in text:
        text = _CACHE_CONTROL.sub(b"", text)
    if len(text) < SEARCHED_BYTES or not media.is_likely(text):
        return Prompt(text, len(text))
    replaced = media.replaced(text)
    return Prompt(replaced, len(replaced), has_media=len(replaced) != len(text))


def _of_list(main: bytes, fields: Fields) -> Prompt:
    """Of several prompts the first counts: what endpoints hold of the others is not asked."""
    kind = main[1:].lstrip()[:1]
    if kind.isdigit():
        return Prompt(main[:-1], len(main), tokens=main.count(b",") + 1)
    if kind in (b'"', b"["):
        first = bytes(_decode_list(main)[0])
        tokens = main.count(b",") + 1 if kind == b"[" else 0
        return Prompt(first[:-1], len(main), tokens=tokens)
    return _whole(main, fields)
