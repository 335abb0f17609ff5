"""Decodes KV cache events, batches of stored and removed blocks, as vLLM and SGLang publish them.

The format is MessagePack in two forms: events as arrays whose first element is their type, or as maps with
`type`. This module bounds and checks everything once, because anyone who can reach an engine's port could
have sent it. It checks lengths before decoding: a megabyte of empty arrays would become 70 MB of objects.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec

MAX_EVENTS = 16_384
MAX_BLOCKS = 65_536
"""Per event."""
MAX_TOKENS = 1 << 20
"""Per event."""
SLICE_BLOCKS = 1024
SLICE_TOKENS = 65_536
"""An event beyond one of these limits is split, so that other work gets its turn in between."""
MAX_VALUE_BYTES = 1024
"""Per value that is not a list, in MessagePack."""
EXTRA_CHARACTERS = 1024
MAX_BLOCK_TOKENS = 8192
MAX_HASH_BYTES = 64
MAX_GROUPS = 64
"""Groups of layers with caches of their own."""

_KEEP_ALL = frozenset({"full_attention", "mla_attention", "sink_full_attention"})
"""Kinds of layers that keep the whole prompt; others keep its last tokens, or a state."""

EngineHash: TypeAlias = int | bytes
"""An engine's name of a block; opaque."""


class InvalidEventsError(ValueError):
    """A message that is not a batch of events."""


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive blocks of a prompt are in the cache. For lower tiers, some engines send names only, in no
    order and without tokens."""

    hashes: tuple[EngineHash, ...]
    parent: EngineHash | None
    """The block before the first; None at the beginning of a prompt."""
    tokens: array[int]
    """Tokens of all blocks, `block_tokens` each; empty if the engine sends names only."""
    block_tokens: int
    """0 if the engine sends names only, without a block size."""
    adapter: str
    medium: str
    extra: str = ""
    """Other keys of the cache, such as images or salts; empty for plain text."""
    group: int = 0
    """Group of layers. A model with several kinds has several: each reports the same blocks by the same
    names."""
    is_whole: bool = True
    """Whether these layers keep the whole prompt; assumed if the engine does not report it."""


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks are no longer in the cache."""

    hashes: tuple[EngineHash, ...]
    medium: str
    group: int = 0


class Cleared(msgspec.Struct, frozen=True):
    """The cache is empty."""


Event: TypeAlias = Stored | Removed | Cleared

GPU = "GPU"

_NOTHING = b"\xc0"
_NIL = msgspec.Raw(_NOTHING)
_LONG_MAPS = (0xDE, 0xDF)
_ARRAY_HEADERS = {0xDC: 3, 0xDD: 5}
"""Bytes before the first item of long arrays."""
_Hash: TypeAlias = int | Annotated[bytes, msgspec.Meta(max_length=MAX_HASH_BYTES)]
_Hashes: TypeAlias = Annotated[list[_Hash], msgspec.Meta(max_length=MAX_BLOCKS)]
_Events: TypeAlias = Annotated[list[msgspec.Raw], msgspec.Meta(max_length=MAX_EVENTS)]


class _Batch(msgspec.Struct, array_like=True):
    ts: msgspec.Raw
    events: _Events


class _BatchMap(msgspec.Struct):
    events: _Events


class _Kind(msgspec.Struct, array_like=True):
    type: str


class _KindMap(_Kind, array_like=False):
    type: str = ""


class _Stored(msgspec.Struct, array_like=True):
    """The fields of the array form. Unknown fields follow them and are ignored."""

    type: str
    block_hashes: _Hashes
    parent_block_hash: _Hash | None = None
    token_ids: Annotated[list[int], msgspec.Meta(max_length=MAX_TOKENS)] | None = None
    block_size: int = -1
    lora_id: msgspec.Raw = _NIL
    medium: msgspec.Raw = _NIL
    lora_name: msgspec.Raw = _NIL
    extra_keys: msgspec.Raw = _NIL
    group_idx: msgspec.Raw = _NIL
    kv_cache_spec_kind: msgspec.Raw = _NIL


class _StoredMap(_Stored, array_like=False):
    pass


class _Removed(msgspec.Struct, array_like=True):
    type: str
    block_hashes: _Hashes
    medium: msgspec.Raw = _NIL
    group_idx: msgspec.Raw = _NIL


class _RemovedMap(_Removed, array_like=False):
    pass


_decode = msgspec.msgpack.Decoder().decode
_decode_keys = msgspec.msgpack.Decoder(
    Annotated[list[msgspec.Raw], msgspec.Meta(max_length=MAX_BLOCKS)]
).decode
_decode_batch = msgspec.msgpack.Decoder(_Batch).decode
_decode_batch_map = msgspec.msgpack.Decoder(_BatchMap).decode


class _Form(NamedTuple):
    """Decoders for the type of an event, for stored blocks and for removed blocks."""

    kind: Callable[[bytes], _Kind]
    stored: Callable[[bytes], _Stored]
    removed: Callable[[bytes], _Removed]


_decoder = msgspec.msgpack.Decoder
_ARRAYS = _Form(_decoder(_Kind).decode, _decoder(_Stored).decode, _decoder(_Removed).decode)
_MAPS = _Form(_decoder(_KindMap).decode, _decoder(_StoredMap).decode, _decoder(_RemovedMap).decode)


def read(payload: bytes) -> Iterator[Event]:
    """Decode the events of a batch one by one; unknown types are skipped.

    Raises InvalidEventsError, possibly after some events.
    """
    try:
        batch = _decode_batch_map(payload) if _is_map(payload) else _decode_batch(payload)
        for event in batch.events:
            yield from _read(bytes(event))
    except (
        msgspec.DecodeError,
        UnicodeDecodeError,
        RecursionError,
        LookupError,
        TypeError,
        OverflowError,
    ) as error:
        raise InvalidEventsError(f"no batch of events: {error}") from error


def cost(event: Event) -> int:
    """Cost of applying an event, in blocks: clearing a cache costs as much as a slice."""
    return SLICE_BLOCKS if isinstance(event, Cleared) else len(event.hashes)


def _is_map(payload: bytes) -> bool:
    return bool(payload) and (payload[0] & 0xF0 == 0x80 or payload[0] in _LONG_MAPS)


def _read(event: bytes) -> Iterator[Event]:
    form = _MAPS if _is_map(event) else _ARRAYS
    match form.kind(event).type:
        case "BlockStored":
            yield from _stored(form.stored(event))
        case "BlockRemoved":
            yield from _removed(form.removed(event))
        case "AllBlocksCleared":
            yield Cleared()


def _removed(told: _Removed) -> Iterator[Removed]:
    medium, group = _text(told.medium) or GPU, _group(told.group_idx)
    for begin in range(0, len(told.block_hashes) or 1, SLICE_BLOCKS):
        hashes = tuple(told.block_hashes[begin : begin + SLICE_BLOCKS])
        yield Removed(hashes=hashes, medium=medium, group=group)


def _stored(told: _Stored) -> Iterator[Stored]:
    """Split an event into slices, each of which follows the one before as a later event would."""
    hashes, tokens, block_tokens = told.block_hashes, told.token_ids, told.block_size
    if not (1 if tokens else 0) <= block_tokens <= MAX_BLOCK_TOKENS:
        raise InvalidEventsError(f"block_size is a number from 1 to {MAX_BLOCK_TOKENS}")
    if tokens is None or (tokens and len(tokens) != len(hashes) * block_tokens):
        raise InvalidEventsError("a block has block_size token_ids")
    lora_name = _value(told.lora_name)
    adapter = lora_name or _value(told.lora_id)
    layers, group = _value(told.kv_cache_spec_kind), _group(told.group_idx)
    medium = _text(told.medium) or GPU
    extra = _extra(told.extra_keys, lora_name)
    parent = told.parent_block_hash
    size = max(min(SLICE_BLOCKS, SLICE_TOKENS // max(block_tokens, 1)), 1)
    for begin in range(0, len(hashes) or 1, size):
        end = begin + size
        yield Stored(
            hashes=tuple(hashes[begin:end]),
            parent=parent,
            tokens=array("I", tokens[begin * block_tokens : end * block_tokens]),
            block_tokens=block_tokens,
            adapter="" if adapter is None else str(adapter)[:256],
            medium=medium,
            extra=extra,
            group=group,
            is_whole=layers in _KEEP_ALL if isinstance(layers, str) else not group,
        )
        parent, extra = hashes[min(end, len(hashes)) - 1] if hashes else None, ""


def _value(raw: msgspec.Raw) -> Any:
    """Decode a value of bounded length."""
    data = bytes(raw)
    if data == _NOTHING:
        return None
    if len(data) > MAX_VALUE_BYTES:
        raise InvalidEventsError(f"a value of {len(data)} bytes: the most is {MAX_VALUE_BYTES}")
    return _decode(data)


def _extra(raw: msgspec.Raw, adapter: Any) -> str:
    """Cache keys besides the adapter, by block; empty if there are none.

    Engines put anything there. Only a bounded prefix, which is all that counts, is decoded.
    """
    data = bytes(raw)
    header = _ARRAY_HEADERS.get(data[0], 1)
    if data == _NOTHING or data.count(_NOTHING, header) == len(data) - header:
        return ""
    keys = [bytes(key) for key in _decode_keys(raw)]
    if not any(_key(key, adapter) for key in keys):
        return ""
    text = "["
    for key in keys:
        text += f"{_key(key, adapter)!r}, "
        if len(text) > EXTRA_CHARACTERS:
            break
    return text[:EXTRA_CHARACTERS]


def _key(data: bytes, adapter: Any) -> Any:
    """Cache keys of one block, without the adapter: it comes first, and is reported separately."""
    if data == _NOTHING:
        return None
    if len(data) > MAX_VALUE_BYTES:
        return data[:MAX_VALUE_BYTES]
    key = _decode(data)
    return key[1:] if adapter and isinstance(key, list) and key[:1] == [adapter] else key


def _group(raw: msgspec.Raw) -> int:
    told = _value(raw)
    if told is None:
        return 0
    if type(told) is not int or not 0 <= told < MAX_GROUPS:
        raise InvalidEventsError(f"group_idx is a number below {MAX_GROUPS}")
    return told


def _text(raw: msgspec.Raw) -> str:
    value = _value(raw)
    return value[:64] if isinstance(value, str) else ""
