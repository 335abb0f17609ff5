"""The cost of the prefix index: hashing a prompt, looking it up for 32 endpoints, and recording its endpoint.

CPU time of one process, the minimum of several runs. The first line is a plain Python loop, to compare
machines: `python bench/prefix.py`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import cycle

import pieces
from headgate import fleet, routing
from headgate.fleet.prefix import PrefixIndex, hashing

ENDPOINTS = 32
PROMPT_BYTES = 8192
REPEATS, RUNS = 300, 40
BUDGET_US = 12.0
HASHING, MATCHED = "hashing", "matched"
HELD, NEW = "add, all held", "add, none held"


def conversations(rng: random.Random, count: int, shared_bytes: int) -> list[bytes]:
    """Prompts with a shared prefix and different continuations."""
    shared = rng.randbytes(shared_bytes)
    return [shared + rng.randbytes(PROMPT_BYTES - shared_bytes) for _ in range(count)]


def main() -> None:
    rng = random.Random(0)
    loads = [
        fleet.EndpointState(routing.Endpoint(f"bench/pod-{n}", "127.0.0.1", n)) for n in range(ENDPOINTS)
    ]
    index = PrefixIndex()
    prompts = conversations(rng, 4 * ENDPOINTS, shared_bytes=PROMPT_BYTES // 4)
    known = [hashing.hashes(prompt, 1) for prompt in prompts]
    sent = list(zip(known, cycle(loads), strict=False))
    for prefix, load in sent:
        index.add(prefix, load, 1.0)
    full = PrefixIndex(default_limit=40 * len(known[0]))
    texts, prefixes, again, places = cycle(prompts), cycle(known), cycle(sent), cycle(loads)
    times: Iterator[float] = iter(float(n) for n in range(10**9))
    fresh = iter([[rng.getrandbits(64) for _ in known[0]] for _ in range(2 * RUNS * REPEATS)])
    costs = pieces.costs_us(
        {
            pieces.LOOP: pieces.python_loop,
            HASHING: lambda: hashing.hashes(next(texts), 1),
            MATCHED: lambda: index.matched(next(prefixes), loads),
            HELD: lambda: index.add(*next(again), next(times)),
            NEW: lambda: index.add(next(fresh), next(places), next(times)),
            "add, none held, and others leave": lambda: full.add(next(fresh), next(places), next(times)),
        },
        repeats=REPEATS,
        runs=RUNS,
    )
    print(f"{PROMPT_BYTES} bytes, {len(known[0])} blocks, {ENDPOINTS} endpoints: µs of CPU")
    for name, cost in costs.items():
        print(f"{name:34}{cost:8.2f}")
    for name in (HELD, NEW):
        whole = costs[HASHING] + costs[MATCHED] + costs[name]
        print(f"{'all three, ' + name[5:]:34}{whole:8.2f}   (budget {BUDGET_US:g})")


if __name__ == "__main__":
    main()
