"""What engines publish of their caches: batches of blocks stored and removed, as vLLM and SGLang write them.

MessagePack, in two forms: events as arrays whose first element is their type, or as maps with `type`. What
arrives is bounded and checked here, once: whoever can reach the port of an engine could have sent it.
"""

from __future__ import annotations

from array import array
from typing import Any, TypeAlias

import msgspec

MAX_EVENTS = 16_384
MAX_BLOCKS = 65_536
"""Of one event."""
MAX_BLOCK_TOKENS = 8192
MAX_HASH_BYTES = 64
MAX_GROUPS = 64
"""Of layers that have caches of their own."""

_KEEP_ALL = frozenset({"full_attention", "mla_attention", "sink_full_attention"})
"""Kinds of layers for which all of a prompt is kept; others keep its last tokens, or a state."""

EngineHash: TypeAlias = int | bytes
"""What an engine calls a block: nothing is known of how it is made."""

_FIELDS = {
    "BlockStored": (
        *("block_hashes", "parent_block_hash", "token_ids", "block_size"),
        *("lora_id", "medium", "lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind"),
    ),
    "BlockRemoved": ("block_hashes", "medium", "group_idx"),
    "AllBlocksCleared": (),
}
"""Names of the places of the array form, after the type. Further ones are not looked at."""


class InvalidEventsError(ValueError):
    """A message that is no batch of events."""


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks that follow one another in a prompt are in the cache. Of lower tiers, some engines tell names
    alone, in no order and without tokens."""

    hashes: tuple[EngineHash, ...]
    parent: EngineHash | None
    """The block before the first; None at the beginning of a prompt."""
    tokens: array[int]
    """Of all its blocks, `block_tokens` for each; none where names alone are told."""
    block_tokens: int
    """0 where an engine does not say it with names alone."""
    adapter: str
    medium: str
    extra: str = ""
    """What else divides the cache, such as images or salts; empty for plain text."""
    group: int = 0
    """Of layers, where a model has several kinds: each group tells of the same blocks, by the same names."""
    is_whole: bool = True
    """Whether these layers keep all of a prompt, as far as is told."""


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks are no longer in the cache."""

    hashes: tuple[EngineHash, ...]
    medium: str
    group: int = 0


class Cleared(msgspec.Struct, frozen=True):
    """The cache is empty."""


Event: TypeAlias = Stored | Removed | Cleared

GPU = "GPU"

_decode = msgspec.msgpack.Decoder().decode


def read(payload: bytes) -> list[Event]:
    """The events of a batch; types that are not known are left out. Raises InvalidEventsError."""
    try:
        batch = _decode(payload)
        events = batch["events"] if isinstance(batch, dict) else batch[1]
        if not isinstance(events, list) or len(events) > MAX_EVENTS:
            raise InvalidEventsError(f"a batch has a list of at most {MAX_EVENTS} events")
        found = [_event(event) for event in events]
    except (
        msgspec.DecodeError,
        UnicodeDecodeError,
        RecursionError,
        LookupError,
        TypeError,
        OverflowError,
    ) as error:
        raise InvalidEventsError(f"no batch of events: {error}") from error
    return [event for event in found if event is not None]


def _event(event: Any) -> Event | None:
    if isinstance(event, dict):
        kind, told = event.get("type"), event
    else:
        kind = event[0]
        told = dict(zip(_FIELDS.get(kind, ()), event[1:], strict=False))
    if kind == "AllBlocksCleared":
        return Cleared()
    if kind not in _FIELDS:
        return None
    hashes = _hashes(told["block_hashes"])
    medium, group = _text(told.get("medium")) or GPU, _group(told.get("group_idx"))
    if kind == "BlockRemoved":
        return Removed(hashes=hashes, medium=medium, group=group)
    return _stored(told, hashes, medium, group)


def _stored(told: dict[str, Any], hashes: tuple[EngineHash, ...], medium: str, group: int) -> Stored:
    block_tokens, tokens = told["block_size"], told["token_ids"]
    least = 1 if tokens else 0
    if not isinstance(block_tokens, int) or not least <= block_tokens <= MAX_BLOCK_TOKENS:
        raise InvalidEventsError(f"block_size is a number from 1 to {MAX_BLOCK_TOKENS}")
    if not isinstance(tokens, list) or (tokens and len(tokens) != len(hashes) * block_tokens):
        raise InvalidEventsError("a block has block_size token_ids")
    parent = told.get("parent_block_hash")
    adapter = told.get("lora_name") or told.get("lora_id")
    extra = _extra(told.get("extra_keys") or (), told.get("lora_name"))
    layers = told.get("kv_cache_spec_kind")
    return Stored(
        hashes=hashes,
        parent=None if parent is None else _hashes([parent])[0],
        tokens=array("I", tokens),
        block_tokens=block_tokens,
        adapter="" if adapter is None else str(adapter)[:256],
        medium=medium,
        extra=repr(extra)[:1024] if any(extra) else "",
        group=group,
        is_whole=layers in _KEEP_ALL if isinstance(layers, str) else not group,
    )


def _extra(keys: Any, adapter: Any) -> list[Any]:
    """Of each block, what divides the cache besides the adapter, which comes first."""
    return [key[1:] if adapter and isinstance(key, list) and key[:1] == [adapter] else key for key in keys]


def _group(told: Any) -> int:
    if told is None:
        return 0
    if type(told) is not int or not 0 <= told < MAX_GROUPS:
        raise InvalidEventsError(f"group_idx is a number below {MAX_GROUPS}")
    return told


def _hashes(told: Any) -> tuple[EngineHash, ...]:
    if not isinstance(told, list) or len(told) > MAX_BLOCKS:
        raise InvalidEventsError(f"block_hashes is a list of at most {MAX_BLOCKS}")
    for each in told:
        is_hash = type(each) is int or (type(each) is bytes and len(each) <= MAX_HASH_BYTES)
        if not is_hash:
            raise InvalidEventsError(f"a hash is a number or at most {MAX_HASH_BYTES} bytes")
    return tuple(told)


def _text(value: Any) -> str:
    return value[:64] if isinstance(value, str) else ""
