"""A slice of a trace as HTTP requests: text for its blocks, and the time of each request.

A Mooncake trace describes prompts as IDs of blocks of 512 tokens; equal IDs are equal text. Each block
becomes unique text here, so that a router sees prefixes exactly where the trace has them.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

import click

import upstream
from headgate.traffic import traces

BLOCK_TOKENS = 512
BYTES_PER_TOKEN = 4

trace_option = click.option(
    "--trace",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="A trace in Mooncake's format; docs/benchmarks.md says where to get one.",
)
cache_blocks_option = click.option(
    "--cache-blocks",
    type=click.IntRange(256),
    default=6000,
    show_default=True,
    help="Cache blocks of 512 tokens.",
)
most_output_option = click.option(
    "--most-output", type=click.IntRange(1), default=48, show_default=True, help="Maximum output tokens."
)


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a trace; `at_s` counts from the first."""

    at_s: float
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...]
    headers: str = ""

    def body(self) -> bytes:
        """A streamed chat request with a prompt of the right number of tokens, at four bytes each."""
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
    """Unique text of one block, with as many characters as its tokens have bytes."""
    unit = f"{block:07x} "
    return unit * (BLOCK_TOKENS * BYTES_PER_TOKEN // len(unit))


def read(path: Path, *, requests: int, rate: float, most_output: int, seed: int) -> list[Request]:
    """The first requests of a Mooncake trace at `rate` per second, spread within the grid of its times."""
    with path.open("rb") as lines:
        every = list(traces.requests(path.name, lines, traces.Mooncake(BLOCK_TOKENS)))
    arrivals = traces.Arrivals(limit=requests, jitter_s=traces.grid_s(every), rate_per_s=rate)
    timed = traces.arrange(every, arrivals, random.Random(seed))
    return [
        Request(
            at_s=each.at_s - timed[0].at_s,
            prompt_tokens=each.prompt_tokens,
            output_tokens=min(each.output_tokens, most_output),
            blocks=each.prefix,
        )
        for each in timed
    ]
