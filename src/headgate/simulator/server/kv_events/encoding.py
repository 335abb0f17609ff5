"""Events in msgpack, in vLLM's two forms: maps with a `type`, or arrays that begin with it."""

from collections.abc import Callable, Sequence

import msgspec

from headgate.simulator.model import AllBlocksCleared, BlockRemoved, BlockStored, KvEvent, Tokens
from headgate.simulator.server.kv_events.config import EventForm

_encoder = msgspec.msgpack.Encoder()


class Encoder:
    """Packs batches; `adapters` gives an adapter's number by its name."""

    def __init__(self, form: EventForm, rank: int, adapters: Callable[[str], int | None]) -> None:
        self._form = form
        self._rank = rank
        self._adapters = adapters

    def event(self, event: KvEvent, tokens_of: Callable[[BlockStored], Tokens]) -> object:
        """One event, ready to be packed."""
        fields = self._fields(event, tokens_of)
        return fields if self._form == "map" else list(fields.values())

    def batch(self, at_unix_s: float, events: Sequence[object]) -> bytes:
        """[time, events, data-parallel rank]."""
        return _encoder.encode((at_unix_s, events, self._rank))

    def _fields(self, event: KvEvent, tokens_of: Callable[[BlockStored], Tokens]) -> dict[str, object]:
        match event:
            case BlockStored():
                return {
                    "type": "BlockStored",
                    "block_hashes": event.hashes,
                    "parent_block_hash": event.parent,
                    "token_ids": tokens_of(event).tolist(),
                    "block_size": event.block_size,
                    "lora_id": self._adapters(event.adapter) if event.adapter else None,
                    "medium": event.medium,
                    "lora_name": event.adapter or None,
                }
            case BlockRemoved():
                return {"type": "BlockRemoved", "block_hashes": event.hashes, "medium": event.medium}
            case AllBlocksCleared():
                return {"type": "AllBlocksCleared"}
