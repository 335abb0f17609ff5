"""The members of a JSON request body that routing reads, and the prompt that they hold."""

from __future__ import annotations

import msgspec

_ABSENT = msgspec.Raw(b"")


class Fields(msgspec.Struct, frozen=True, gc=False):
    """What is decoded of a body; everything else is skipped over.

    Members that make up the prompt are only found, not decoded, which costs no more than to skip them.
    """

    model: str | None = None
    stream: bool | None = None
    stream_options: msgspec.Raw = _ABSENT
    messages: msgspec.Raw = _ABSENT
    prompt: msgspec.Raw = _ABSENT
    input: msgspec.Raw = _ABSENT
    tools: msgspec.Raw = _ABSENT
    system: msgspec.Raw = _ABSENT
    instructions: msgspec.Raw = _ABSENT
    cache_salt: msgspec.Raw = _ABSENT
    max_tokens: msgspec.Raw = _ABSENT
    max_completion_tokens: msgspec.Raw = _ABSENT
    max_output_tokens: msgspec.Raw = _ABSENT

    @property
    def most_tokens(self) -> int | None:
        """How long the answer may be; None without a limit, and where it is for the engine to refuse it."""
        limit = self.max_tokens or self.max_completion_tokens or self.max_output_tokens
        if not limit:
            return None
        digits = bytes(limit)
        return int(digits) if len(digits) < 10 and digits.isdigit() else None


decode = msgspec.json.Decoder(Fields).decode


class Prompt(msgspec.Struct, frozen=True, gc=False):
    """What is hashed of a request, and how long it is."""

    text: bytes | memoryview
    """At least what is hashed of it, from its beginning. Of a large body, a view if it stands there whole."""
    size: int
    """In bytes of text, of all prompts where there is a list of them."""
    tokens: int = 0
    """How many they are, where the client sent token ids; 0 otherwise."""
    has_media: bool = False


EMPTY = Prompt(b"", 0)
