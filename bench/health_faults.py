"""Random faults: which engine fails in which way, and when."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind of failure. `status`: for engines that return errors; `retry_after_s`: their Retry-After."""

    name: str
    status: int = 0
    retry_after_s: float = 0.0


REST_S = 5.0
"""The value of engines that send Retry-After."""
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
"""No faults at first, while the gateway learns normal values, nor at the end, to see all recoveries."""
GAP_S = 4.0
"""Mean time between two faults, if another one is possible."""
SHORTEST_S, LONGEST_S = 5.0, 25.0
WELL_FOR_S = 5.0
"""Minimum healthy time of an engine between two faults."""


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
    """Episodes by start: all kinds equally often, at most `most` engines at a time (default: half)."""
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
