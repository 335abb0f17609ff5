"""What an endpoint that prefilled a prompt says of it."""

from __future__ import annotations

from typing import Annotated

import msgspec

from headgate.engines.transfer.body import first_byte

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Details(msgspec.Struct, frozen=True):
    cached_tokens: Count | None = None


class _Usage(msgspec.Struct, frozen=True):
    """In the names of the chat, the responses and the messages API."""

    prompt_tokens_details: _Details | None = None
    input_tokens_details: _Details | None = None
    cache_read_input_tokens: Count | None = None


class PrefillAnswer(msgspec.Struct, frozen=True):
    """Of its members those that count; `read` raises msgspec.DecodeError or UnicodeDecodeError."""

    kv_transfer_params: msgspec.Raw = msgspec.Raw(b"null")
    usage: _Usage | None = None

    @property
    def handed_over(self) -> msgspec.Raw | None:
        """What the other endpoint needs to fetch the cache; None where nothing is said."""
        return self.kv_transfer_params if first_byte(self.kv_transfer_params) == b"{" else None

    @property
    def cached_tokens(self) -> int | None:
        """How much of the prompt the cache held; None where the engine does not say."""
        usage = self.usage
        if usage is None:
            return None
        details = usage.prompt_tokens_details or usage.input_tokens_details
        return details.cached_tokens if details is not None else usage.cache_read_input_tokens


read = msgspec.json.Decoder(PrefillAnswer).decode
