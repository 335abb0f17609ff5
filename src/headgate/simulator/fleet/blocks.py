"""Convert the block hashes of a trace to those of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import xxhash

from headgate.traffic.traces import TimedRequest

_MASK = (1 << 64) - 1
_ODD = 0x9E3779B97F4A7C15
_OTHER_ODD = 0xC2B2AE3D27D4EB4F


class Hashes(NamedTuple):
    """Hashes of the full blocks of a prompt, and of the blocks that its output fills after them."""

    prompt: Sequence[int]
    answer: Sequence[int]


def hashes_of(timed: TimedRequest, block_size: int) -> Hashes:
    """The block hashes of a request for an engine with this block size."""
    prefix = of_adapter(timed.prefix, timed.adapter)
    if not timed.answer:
        return Hashes(engine_blocks(prefix, timed.block_tokens, timed.prompt_tokens, block_size), ())
    # The block in which the prompt ends gets its hash including the output, as the next turn sees it.
    known = timed.prompt_tokens // timed.block_tokens
    chain = [*prefix[:known], *of_adapter(timed.answer, timed.adapter)]
    tokens = min(timed.prompt_tokens + timed.output_tokens, len(chain) * timed.block_tokens)
    blocks = engine_blocks(chain, timed.block_tokens, tokens, block_size)
    of_prompt = timed.prompt_tokens // block_size
    return Hashes(blocks[:of_prompt], blocks[of_prompt:])


def engine_blocks(
    prefix: Sequence[int], block_tokens: int, prompt_tokens: int, block_size: int
) -> Sequence[int]:
    """Hashes of a prompt's full blocks of `block_size` tokens, given those of blocks of `block_tokens`.

    Two prompts have the same hash at a position if the trace says that they are equal up to its end. If the
    sizes are equal, so are the hashes.
    """
    full = prompt_tokens // block_size
    if not prefix:
        return ()
    if block_size == block_tokens:
        return prefix[:full]
    last = min(full * block_size, len(prefix) * block_tokens)
    parts = [block * _ODD for block in prefix]
    return [
        (parts[(end - 1) // block_tokens] + end * _OTHER_ODD) & _MASK
        for end in range(block_size, last + 1, block_size)
    ]


def of_adapter(prefix: Sequence[int], adapter: str) -> Sequence[int]:
    """The hashes of a prompt for an adapter, which differ from those of other adapters and the base model."""
    if not adapter:
        return prefix
    salt = xxhash.xxh3_64_intdigest(adapter.encode())
    return [(block * _ODD + salt) & _MASK for block in prefix]
