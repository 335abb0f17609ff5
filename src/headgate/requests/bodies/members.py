"""The members of a JSON request body that routing reads, and the prompt they contain."""

from __future__ import annotations

import msgspec

from headgate.requests.bodies.media import Medium

_ABSENT = msgspec.Raw(b"")


class Fields(msgspec.Struct, frozen=True, gc=False):
    """The members decoded from a body; all others are skipped.

    Members of the prompt are located but not decoded, which costs no more than skipping them.
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
        """Limit for the length of the response; None if there is none, or if it is invalid, which the engine
        rejects."""
        limit = self.max_tokens or self.max_completion_tokens or self.max_output_tokens
        if not limit:
            return None
        digits = bytes(limit)
        return int(digits) if len(digits) < 10 and digits.isdigit() else None


decode = msgspec.json.Decoder(Fields).decode


class Prompt(msgspec.Struct, frozen=True, gc=False):
    """The text of a prompt that is hashed, and its size."""

    text: bytes | memoryview
    """At least the part that is hashed, from the beginning. For a large body, a view if that part is
    contiguous."""
    size: int
    """In bytes of text, over all prompts of a list."""
    tokens: int = 0
    """The number of token ids that the client sent; 0 if it sent text."""
    media: tuple[Medium, ...] = ()
    """Images, audio and files, which are neither in `text` nor in `size` until they are placed."""
    rest: tuple[bytes | memoryview, ...] = ()
    """The text after each of them, until they are placed."""


EMPTY = Prompt(b"", 0)
