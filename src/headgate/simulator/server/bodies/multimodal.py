"""Images in prompts: which tokens they are, and how engines that pass prompts on tell of them."""

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

IMAGE_TOKENS = 256
"""Of an image, whatever its size."""
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


def image(name: str, at: int, items: list[Item]) -> Tokens:
    """The tokens of an image that is known by its address or its content; it is added to `items`."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    items.append(Item(modality="image", hash=digest, offset=at, length=IMAGE_TOKENS))
    return tokens_of(digest, IMAGE_TOKENS)


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
    for item in items:
        hashes.setdefault(item.modality, []).append(item.hash)
        places.setdefault(item.modality, []).append({"offset": item.offset, "length": item.length})
    return {"mm_hashes": hashes, "mm_placeholders": places, "kwargs_data": None}


def place(prompt: Tokens, told: Features) -> tuple[Tokens, tuple[Item, ...]]:
    """A prompt whose placeholders are the tokens of its items. `ApiError` names the field."""
    items = sorted(_items(told, len(prompt)), key=lambda item: item.offset)
    if len(items) > MOST_ITEMS:
        raise wrong("features.mm_hashes", f"has {len(items)} items; send at most {MOST_ITEMS}")
    placed = prompt[:]
    end = 0
    for item in items:
        if item.offset < end:
            problem = f"the one at {item.offset} begins before that in front of it ends"
            raise wrong(f"features.mm_placeholders.{item.modality}", problem)
        end = item.offset + item.length
        placed[item.offset : end] = tokens_of(item.hash, item.length)
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
    return {
        item.hash: {"peer_host": host, "peer_port": port, "num_encoder_tokens": item.length} for item in items
    }
