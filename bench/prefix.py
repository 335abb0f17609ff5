"""What the prefix index costs: hashing a prompt, asking 32 endpoints, and noting where it went.

CPU time of one process, the least of several runs. The first line is a plain Python loop, by which the
machine's speed can be told: `python bench/prefix.py`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from itertools import cycle

from headgate import fleet, routing
from headgate.fleet.prefix import PrefixIndex, hashing

ENDPOINTS = 32
PROMPT_BYTES = 8192
REPEATS, RUNS = 300, 40
BUDGET_US = 12.0


def cost_us(work: Callable[[], object]) -> float:
    """CPU time of one call, in microseconds: the least mean of several runs."""
    least = float("inf")
    for _ in range(RUNS):
        begin = time.process_time()
        for _ in range(REPEATS):
            work()
        least = min(least, time.process_time() - begin)
    return least / REPEATS * 1e6


def python_loop() -> int:
    total = 0
    for n in range(100):
        total += n
    return total


def conversations(rng: random.Random, count: int, shared_bytes: int) -> list[bytes]:
    """Prompts that begin alike and go on in their own ways."""
    shared = rng.randbytes(shared_bytes)
    return [shared + rng.randbytes(PROMPT_BYTES - shared_bytes) for _ in range(count)]


def main() -> None:
    rng = random.Random(0)
    loads = [fleet.EndpointLoad(routing.Endpoint(f"bench/pod-{n}", "127.0.0.1", n)) for n in range(ENDPOINTS)]
    index = PrefixIndex()
    prompts = conversations(rng, 4 * ENDPOINTS, shared_bytes=PROMPT_BYTES // 4)
    known = [hashing.hashes(prompt, 1) for prompt in prompts]
    for n, prefix in enumerate(known):
        index.add(prefix, loads[n % ENDPOINTS], 1.0)
    texts, prefixes, places = cycle(prompts), cycle(known), cycle(loads)
    ages: Iterator[float] = iter(float(n) * 3600 for n in range(10**9))
    fresh = iter([[rng.getrandbits(64) for _ in known[0]] for _ in range(RUNS * REPEATS)])
    rows = [
        ("Python loop of 100", cost_us(python_loop)),
        ("hashing", cost_us(lambda: hashing.hashes(next(texts), 1))),
        ("matched", cost_us(lambda: index.matched(next(prefixes), loads))),
        ("add, all held and just used", cost_us(lambda: index.add(known[0], loads[0], 2.0))),
        ("add, all held and used long ago", cost_us(lambda: index.add(known[0], loads[0], next(ages)))),
        ("add, none held", cost_us(lambda: index.add(next(fresh), next(places), 1e9))),
    ]
    print(f"{PROMPT_BYTES} bytes, {len(known[0])} blocks, {ENDPOINTS} endpoints: µs of CPU")
    for name, cost in rows:
        print(f"{name:34}{cost:8.2f}")
    whole = rows[1][1] + rows[2][1] + rows[5][1]
    print(f"{'hashing, matched, add of new':34}{whole:8.2f}   (budget {BUDGET_US:g})")


if __name__ == "__main__":
    main()
