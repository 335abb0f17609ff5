"""Images, audio and video in prompts: which tokens they are, and how engines tell each other of them."""

import base64
import hashlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import xxhash
from msgspec import Meta

from headgate.simulator.model import LARGEST_TOKEN, Tokens
from headgate.simulator.server.bodies.decoding import wrong
from headgate.simulator.server.generation import Item

TOKENS = {"image": 256, "audio": 128, "video": 1024}
"""Of each, whatever its size."""
BYTES_PER_TOKEN = 9216
"""Of what an encoder makes of an item."""
MOST_ITEMS = 1000

Hash = Annotated[str, Meta(min_length=1, max_length=256)]
Modality = Annotated[str, Meta(min_length=1, max_length=32)]


class Place(msgspec.Struct, frozen=True):
    """Where the tokens of an item are in a prompt."""

    offset: Annotated[int, Meta(ge=0)]
    length: Annotated[int, Meta(ge=1)]


class Features(msgspec.Struct, frozen=True, kw_only=True):
    """The items of a prompt in token ids, as vLLM renders them: by modality, in their order."""

    mm_hashes: Annotated[dict[Modality, list[Hash]], Meta(max_length=16)]
    mm_placeholders: Annotated[dict[Modality, list[Place]], Meta(max_length=16)]
    kwargs_data: dict[str, Any] | None = None
    """What an encoder would work on; not looked at here."""


def item(modality: str, name: str, at: int, items: list[Item]) -> Tokens:
    """The tokens of what is known by its address or its content; it is added to `items`."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    items.append(Item(modality=modality, hash=digest, offset=at, length=TOKENS[modality]))
    return tokens_of(digest, TOKENS[modality])


def tokens_of(digest: str, length: int) -> Tokens:
    """What stands for an item: other tokens for other items, so that caches tell them apart."""
    first = xxhash.xxh32_intdigest(digest.encode("utf-8", "surrogatepass"))
    return array("I", [(first + position) & LARGEST_TOKEN for position in range(length)])


def features(items: Sequence[Item]) -> dict[str, Any] | None:
    """The items as a rendered prompt tells them; None without any."""
    if not items:
        return None
    hashes: dict[str, list[str]] = {}
    places: dict[str, list[dict[str, int]]] = {}
    for each in items:
        hashes.setdefault(each.modality, []).append(each.hash)
        places.setdefault(each.modality, []).append({"offset": each.offset, "length": each.length})
    return {"mm_hashes": hashes, "mm_placeholders": places, "kwargs_data": None}


def place(prompt: Tokens, told: Features) -> tuple[Tokens, tuple[Item, ...]]:
    """A prompt whose placeholders are the tokens of its items. `ApiError` names the field."""
    items = sorted(_items(told, len(prompt)), key=lambda each: each.offset)
    if len(items) > MOST_ITEMS:
        raise wrong("features.mm_hashes", f"has {len(items)} items; send at most {MOST_ITEMS}")
    placed = prompt[:]
    end = 0
    for each in items:
        if each.offset < end:
            problem = f"the one at {each.offset} begins before that in front of it ends"
            raise wrong(f"features.mm_placeholders.{each.modality}", problem)
        end = each.offset + each.length
        placed[each.offset : end] = tokens_of(each.hash, each.length)
    return placed, tuple(items)


def _items(told: Features, prompt_tokens: int) -> Iterator[Item]:
    if unknown := told.mm_placeholders.keys() - told.mm_hashes.keys():
        raise wrong("features.mm_hashes", f"lacks {', '.join(sorted(unknown))}, which has placeholders")
    for modality, hashes in told.mm_hashes.items():
        places = told.mm_placeholders.get(modality, [])
        field = f"features.mm_placeholders.{modality}"
        if len(places) != len(hashes):
            raise wrong(field, f"has {len(places)} elements for {len(hashes)} hashes")
        for number, (digest, there) in enumerate(zip(hashes, places, strict=True)):
            if there.offset + there.length > prompt_tokens:
                raise wrong(f"{field}[{number}]", f"ends behind the {prompt_tokens} tokens of the prompt")
            yield Item(modality=modality, hash=digest, offset=there.offset, length=there.length)


def transfer_params(items: Sequence[Item], host: str, port: int) -> Mapping[str, Any]:
    """What another engine is told of items that are encoded here: where each is, by its hash."""
    agent = base64.b64encode(f"{host}:{port}".encode()).decode()
    return {
        each.hash: {
            "peer_host": host,
            "peer_port": port,
            "num_encoder_tokens": each.length,
            "size_bytes": each.length * BYTES_PER_TOKEN,
            "nixl_agent_metadata_b64": agent,
        }
        for each in items
    }
