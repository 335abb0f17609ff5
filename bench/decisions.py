"""CPU time of the data path's decisions in µs: `make bench-decisions`, or `python bench/decisions.py`.

Each row is the cost per request. The first command measures the pure and the compiled build, the second the
current one. CPU time of one process, the minimum of several runs; also given in units of a plain Python loop,
to compare machines.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pieces
from headgate import api, routing, scheduling, telemetry
from headgate.fleet import EndpointState
from headgate.fleet.prefix import PrefixIndex, hashing
from headgate.flow.capacity import CapacitySettings, making
from headgate.flow.limits import RouteLimits
from headgate.flow.queue import FlowQueue, FlowSettings, Waiting
from headgate.routing.patterns import RequestPattern, StringPattern
from headgate.routing.snapshot import Endpoint
from headgate.routing.split import Splits

REPEATS, RUNS = 300, 60
PROMPT_BYTES = 8192
IN_FLIGHT = 5
KEY = api.ObjectRef("ModelRoute", "default", "route")


def loads(count: int) -> list[EndpointState]:
    """Endpoints with a few requests each, and learned speeds."""
    made = [EndpointState(Endpoint(f"default/{n}", "127.0.0.1", 9000 + n)) for n in range(count)]
    for load in made:
        load.estimator.rates.learn(1, 2048, 0.1)
        for _ in range(IN_FLIGHT):
            load.book(2048, 250, 0.0).first_token(0.1)
    return made


def picks(count: int, prompt: bytes = b"", weights: int = 0) -> Callable[[], object]:
    """A pick of the default policy, and its bookkeeping. Endpoints have so many different weights."""
    pool, rng, now = loads(count), random.Random(1), itertools.count(1.0, 0.01)
    policy: scheduling.Policy = scheduling.PredictedFirstToken(PrefixIndex())
    if weights:
        policy = scheduling.Weighted(scheduling.PredictedFirstToken(PrefixIndex()))
        policy.weigh({load: 1.0 + at % weights for at, load in enumerate(pool)})
    numbers = itertools.cycle(range(50))

    def work() -> None:
        prefix = ()
        if prompt:
            text = prompt[:1024] + next(numbers).to_bytes(4) + prompt[1028:]
            prefix = hashing.hashes(text, hashing.seed("m", b""), hashing.USUAL)
        request = scheduling.Request(
            model="m",
            prompt_tokens=2048,
            output_tokens=250,
            prefix=prefix,
            block_tokens=hashing.BLOCK_BYTES / 4,
        )
        at = next(now)
        choice = scheduling.pick(policy, request, pool, at, rng)
        assert choice is not None
        policy.booked(request, choice, at)

    return work


def booked() -> Callable[[], object]:
    """The accounting of a request at its endpoint, from the pick to its end."""
    [load], now = loads(1), itertools.count(1.0, 0.1)

    def work() -> None:
        at = next(now)
        booking = load.book(1024, 250, at)
        booking.first_token(at + 0.02)
        booking.paced(250, at + 0.04)
        booking.end(at + 0.04, 250)

    return work


def queued() -> Callable[[], object]:
    """A request that is queued among those of ten tenants, and dispatched when another ends."""
    pool = loads(4)
    capacity = making.make(CapacitySettings(detector="in-flight", most=4 * IN_FLIGHT + 1))
    capacity.follow(pool)
    queue = FlowQueue(FlowSettings(), capacity, random.Random(1))
    now, tenants = itertools.count(1.0, 0.01), itertools.cycle([f"tenant-{n}" for n in range(10)])
    running = [pool[0].book(2048, 250, 1.0)]

    def enter(at: float) -> None:
        waiting = Waiting(None, flow=next(tenants), priority=0, work=2298, size=8192, arrived=at)
        assert queue.enter(waiting, at) is None

    for _ in range(100):
        enter(0.0)

    def work() -> None:
        at = next(now)
        enter(at)
        assert queue.next(at) is None, "the pool is full"
        running.pop().end(at)
        assert queue.next(at) is not None
        running.append(pool[0].book(2048, 250, at))

    return work


def limited() -> Callable[[], object]:
    """Tokens reserved, and settled at the end."""
    written = routing.TokenLimits(input=10**9, output=10**9, unit="minute", unit_s=60)
    route = routing.Route(key=KEY, name="default/route", model="m", adapters=(), rules=(), limits=written)
    limits = RouteLimits()
    limits.use([route], 0.0)
    limit, now = limits.by_route[KEY], itertools.count(1.0, 0.01)

    def work() -> None:
        at = next(now)
        held = limit.reserve(2048, 250, at)
        assert held is not None
        held.settle(2011, 261, at)

    return work


def split() -> Callable[[], object]:
    """The target selected by a rule with three of them."""
    targets = tuple(
        routing.Target(api.ObjectRef("ModelServer", "default", f"pool-{n}"), 10 * n) for n in (1, 2, 3)
    )
    rule, splits = routing.Rule("all", None, targets), Splits()
    return lambda: splits.next(KEY, rule)


def matched() -> Callable[[], object]:
    """The rule of a request, the last of ten that match a header."""
    target = (routing.Target(api.ObjectRef("ModelServer", "default", "pool"), 100),)
    tiers = [
        routing.Rule(f"tier-{n}", RequestPattern(((b"x-tier", StringPattern(f"{n}")),)), target)
        for n in range(10)
    ]
    route = routing.Route(key=KEY, name="default/route", model="m", adapters=(), rules=tuple(tiers))
    snapshot = routing.Snapshot(models={"m": (route,)})
    return lambda: routing.match(snapshot, "m", "/v1/chat/completions", lambda name: "9")


def rows() -> dict[str, Callable[[], object]]:
    prompt = random.Random(1).randbytes(PROMPT_BYTES)
    return {
        "pick among 8 endpoints": picks(8),
        "pick among 64 endpoints": picks(64),
        "pick among 8 by the cache of an 8 KB prompt": picks(8, prompt),
        "pick among 8 of two weights": picks(8, weights=2),
        "pick among 64 of two weights": picks(64, weights=2),
        "account at the endpoint": booked(),
        "wait and turn in a queue": queued(),
        "token limit": limited(),
        "match of ten rules by a header": matched(),
        "weighted split": split(),
        pieces.LOOP: pieces.python_loop,
    }


def printed(measured: Mapping[str, Mapping[str, float]]) -> str:
    """A table with one column for each measured build."""
    forms = list(measured)
    lines = [f"| µs of CPU | {' | '.join(forms)} |", f"| --- |{' --- |' * len(forms)}"]
    lines += [
        f"| {row} | {' | '.join(f'{measured[form][row]:.2f}' for form in forms)} |"
        for row in measured[forms[0]]
    ]
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description="What the decisions of the data path cost.")
    options.add_argument("--beside", type=Path, help="results of another build, to print beside these")
    options.add_argument("--write", type=Path, help="file for the results")
    chosen = options.parse_args()
    measured = json.loads(chosen.beside.read_text()) if chosen.beside else {}
    measured[telemetry.installed().form] = pieces.costs_us(rows(), repeats=REPEATS, runs=RUNS)
    if chosen.write:
        chosen.write.write_text(json.dumps(measured))
    sys.stdout.write(printed(measured) + "\n")


if __name__ == "__main__":
    main()
