"""Faults that are drawn at random: which engine fails in which way, from when to when."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A way to fail. `status` is for engines that answer with errors, `retry_after_s` their Retry-After."""

    name: str
    status: int = 0
    retry_after_s: float = 0.0


REST_S = 5.0
"""What engines ask for that send Retry-After."""
STOP, CRASH, SLOW, LACKS = Kind("SIGSTOP"), Kind("crash"), Kind("ten times slower"), Kind("lacks the adapter")
KINDS = (
    Kind("401", 401),
    Kind("403", 403),
    Kind("404", 404),
    Kind("429", 429),
    Kind("429, Retry-After", 429, REST_S),
    Kind("500", 500),
    Kind("502", 502),
    Kind("503", 503),
    Kind("503, Retry-After", 503, REST_S),
    STOP,
    CRASH,
    SLOW,
    LACKS,
)
SLOWER = 10.0

CALM_S = 10.0
"""No fault at first: a gateway learns what is usual. Nor at the end, so that each is seen to be over."""
GAP_S = 4.0
"""Between two faults, on average, where there is room for another."""
SHORTEST_S, LONGEST_S = 5.0, 25.0
WELL_FOR_S = 5.0
"""An engine is well for at least so long between two of its faults."""


@dataclass(frozen=True)
class Episode:
    """One engine fails in one way. Seconds since the run began."""

    kind: Kind
    engine: int
    at_s: float
    until_s: float

    def is_on(self, now: float) -> bool:
        return self.at_s <= now < self.until_s


def drawn(
    seed: int, seconds: float, engines: int, kinds: Sequence[Kind] = KINDS, most: int = 0
) -> list[Episode]:
    """Episodes in the order in which they begin: each kind as often as any other, and never more than `most`
    engines at a time (half of them unless it is said)."""
    rng = random.Random(seed)
    most = most or engines // 2
    episodes: list[Episode] = []
    deck: list[Kind] = []
    busy_until = [0.0] * engines
    now = CALM_S
    while True:
        now += rng.expovariate(1 / GAP_S)
        failing = sorted(until_s for until_s in busy_until if until_s > now)
        if len(failing) >= most:
            now = failing[-most]
        free = [engine for engine, until_s in enumerate(busy_until) if until_s + WELL_FOR_S <= now]
        until_s = now + rng.uniform(SHORTEST_S, LONGEST_S)
        if until_s > seconds - CALM_S:
            return episodes
        if not free:
            continue
        if not deck:
            deck = rng.sample(kinds, len(kinds))
        engine = rng.choice(free)
        episodes.append(Episode(deck.pop(), engine, now, until_s))
        busy_until[engine] = until_s
