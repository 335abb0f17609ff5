"""The token counts of one request, as engines report them in `usage`."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from headgate.engines.responses import CachedTokens, Count


class Usage(NamedTuple):
    """Tokens of one request."""

    prompt: int = 0
    """All tokens of the prompt, cached or not."""
    completion: int = 0
    cached: int | None = None
    """Cached tokens of the prompt; None if the engine does not report them."""


class Reported(CachedTokens, frozen=True):
    """`usage` as reported by an engine, with the field names of the chat, responses and messages APIs."""

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
