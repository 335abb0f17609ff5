"""The token counts of one request, as engines report them in `usage`."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from headgate.engines.responses import CachedTokens, Count


class Usage(NamedTuple):
    """Tokens of one request."""

    prompt: int = 0
    """All of it, cached or not."""
    completion: int = 0
    cached: int | None = None
    """Of the prompt; None where the engine does not say."""


class Reported(CachedTokens, frozen=True):
    """`usage` as an engine has it, in the names of the chat, the responses and the messages API."""

    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_creation_input_tokens: Count | None = None


_decode = msgspec.json.Decoder(Reported).decode


def read(value: bytes) -> Reported | None:
    try:
        return _decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
