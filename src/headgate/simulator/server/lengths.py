"""How long answers are that end by themselves: drawn at random, and the same for the same request."""

import random
from collections.abc import Sequence
from itertools import pairwise

import xxhash

from headgate.simulator.model import Tokens

SHARES = (0.20, 0.30, 0.20, 0.05, 0.10, 0.15)
"""How likely the length is in each of six ranges from 1 to the limit, the shortest first."""
WIDTH = 20
"""Of all ranges but the fourth, where the limit is beyond six times as much."""
WIDE = 3
"""The range that takes the rest then."""
MEAN, DEVIATION = 40, 20
"""Of an answer without a limit."""


def rng_of(prompt: Tokens, *seed: object) -> random.Random:
    """Draws for a prompt: by its content, as the lengths of other prompts must not follow from it."""
    digest = xxhash.xxh3_64_hexdigest(prompt.tobytes())
    return random.Random("/".join(map(str, (digest, *seed))))  # noqa: S311


def within(limit: int, rng: random.Random) -> int:
    """Of an answer of `limit` tokens at most, at least 1."""
    # A limit below six leaves some ranges empty.
    ranges = [each for each in zip(SHARES, pairwise(_ends(limit)), strict=True) if each[1][0] < each[1][1]]
    before, last = rng.choices([each for _, each in ranges], [share for share, _ in ranges])[0]
    return rng.randint(before + 1, last)


def without_limit(room: int, rng: random.Random) -> int:
    """Of an answer for which there is room for so many tokens, at least 1."""
    if room < WIDTH:
        return rng.randint(1, room)
    return min(room, max(1, round(rng.gauss(MEAN, DEVIATION))))


def _ends(limit: int) -> Sequence[int]:
    """Where each range ends, after a 0."""
    if limit <= len(SHARES) * WIDTH:
        return [limit * number // len(SHARES) for number in range(len(SHARES) + 1)]
    behind = len(SHARES) - WIDE - 1
    return [
        *(WIDTH * number for number in range(WIDE + 1)),
        *(limit - WIDTH * number for number in range(behind, -1, -1)),
    ]
