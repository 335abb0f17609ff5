"""What an endpoint that prefilled a prompt says of it."""

from __future__ import annotations

import msgspec

from headgate.engines.cached_tokens import CachedTokens
from headgate.engines.transfer.body import first_byte


class PrefillAnswer(msgspec.Struct, frozen=True):
    """Of its members those that count; `read` raises msgspec.DecodeError or UnicodeDecodeError."""

    kv_transfer_params: msgspec.Raw = msgspec.Raw(b"null")
    usage: CachedTokens | None = None

    @property
    def handed_over(self) -> msgspec.Raw | None:
        """What the other endpoint needs to fetch the cache; None where nothing is said."""
        return self.kv_transfer_params if first_byte(self.kv_transfer_params) == b"{" else None

    @property
    def cached_tokens(self) -> int | None:
        """How much of the prompt the cache held; None where the engine does not say."""
        return self.usage.cached if self.usage is not None else None


read = msgspec.json.Decoder(PrefillAnswer).decode
