"""How much of a prompt an engine found in its cache, as the `usage` of its answer says it."""

from __future__ import annotations

from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Details(msgspec.Struct, frozen=True):
    """What is said of a prompt's tokens beyond their number."""

    cached_tokens: Count | None = None


class CachedTokens(msgspec.Struct, frozen=True):
    """That part of `usage`, in the names of the chat, the responses and the messages API."""

    prompt_tokens_details: Details | None = None
    input_tokens_details: Details | None = None
    cache_read_input_tokens: Count | None = None

    @property
    def cached(self) -> int | None:
        """Tokens of the prompt that were in the engine's cache; None where it does not say."""
        details = self.prompt_tokens_details or self.input_tokens_details
        return self.cache_read_input_tokens if details is None else details.cached_tokens
