"""A slice of a trace as requests over HTTP: which words stand for its blocks, and when each request comes.

A Mooncake trace tells prompts as ids of blocks of 512 tokens; equal ids are equal text. Each block becomes
text of its own here, so that a router sees prefixes exactly where the trace has them.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

import upstream

BLOCK_TOKENS = 512
BYTES_PER_TOKEN = 4
GRID_S = 3.0
"""The conversation trace has its times on a grid of this width: requests come anywhere inside it."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a trace; `at_s` counts from the first."""

    at_s: float
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...]

    def body(self) -> bytes:
        """A streamed chat request whose prompt has as many tokens, at four bytes each."""
        asked = "".join(map(block_text, self.blocks))[: self.prompt_tokens * BYTES_PER_TOKEN]
        return json.dumps(
            {
                "model": upstream.MODEL,
                "messages": [{"role": "user", "content": asked}],
                "max_tokens": self.output_tokens,
                "ignore_eos": True,
                "stream": True,
            }
        ).encode()


def block_text(block: int) -> str:
    """Text of one block: as many characters as its tokens have bytes, and like that of no other block."""
    unit = f"{block:07x} "
    return unit * (BLOCK_TOKENS * BYTES_PER_TOKEN // len(unit))


def read(path: Path, *, requests: int, rate: float, most_output: int, seed: int) -> list[Request]:
    """The first requests of a Mooncake trace at so many a second, spread within the grid of its times."""
    rng = random.Random(seed)
    rows = []
    with path.open() as lines:
        for line in lines:
            row = json.loads(line)
            rows.append((row["timestamp"] / 1000 + rng.random() * GRID_S, row))
            if len(rows) == requests:
                break
    rows.sort(key=lambda each: each[0])
    begin, end = rows[0][0], rows[-1][0]
    scale = (len(rows) / rate) / max(end - begin, 1e-9)
    return [
        Request(
            at_s=(at - begin) * scale,
            prompt_tokens=row["input_length"],
            output_tokens=max(1, min(row["output_length"], most_output)),
            blocks=tuple(row["hash_ids"]),
        )
        for at, row in rows
    ]
