"""CPU time of limits and queues for a request that neither delays, in µs: `python bench/limits.py`.

For a limit: reserving, the response headers, and settling at the end. For the pool's queue: checking whether
the request may be sent immediately, and notifying queued requests of free capacity at its first token and at
its end.

CPU time of one process, the minimum of several runs; also given in units of a plain Python loop, to compare
machines.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pieces
from headgate import api, routing, scheduling
from headgate.dataplane.records.recorder import Recorder
from headgate.flow.limits import RouteLimits
from headgate.gateway import GatewaySettings
from headgate.gateway.shell import Shell
from headgate.requests.limits import headers, refusing, reserving
from headgate.requests.reported import Usage
from headgate.telemetry import Registry

REPEATS, RUNS = 300, 200
UNIT = {"unit": "minute", "unit_s": 60}
NO_LIMIT, BOTH = "no limit: the question alone", "a limit of input and output"
NO_QUEUE, QUEUE = "no queue", "a queue in which nobody waits"
LIMITS = {
    NO_LIMIT: None,
    "a limit of input": routing.TokenLimits(input=10**9, **UNIT),
    "a limit of output": routing.TokenLimits(output=10**9, **UNIT),
    BOTH: routing.TokenLimits(input=10**9, output=10**9, **UNIT),
    "refused by a limit": routing.TokenLimits(input=1000, **UNIT),
}
TOTAL = "both together, beside neither"
MAX_US, MAX_LOOPS = 6.0, 2.5
"""For a limit in both directions and a queue, together."""

KEY = api.ObjectRef("ModelServer", "default", "pool")
ENDPOINTS = 4
IN_FLIGHT = 5
"""Requests in flight on each endpoint, so that free capacity has to be computed."""


def limited(limits: routing.TokenLimits | None) -> Callable[[], object]:
    """Everything that the data path does for the limit of one request."""
    key = api.ObjectRef("ModelRoute", "default", "route")
    route = routing.Route(key=key, name="default/route", model="m", adapters=(), rules=(), limits=limits)
    plane: Any = SimpleNamespace(routes=SimpleNamespace(limits=RouteLimits()))
    plane.routes.limits.use([route], time.monotonic())
    life: Any = SimpleNamespace(
        plane=plane,
        decision=SimpleNamespace(
            match=SimpleNamespace(route=route),
            scheduled=SimpleNamespace(prompt_tokens=2048, output_tokens=250),
            stream=False,
        ),
        reservation=None,
        account=SimpleNamespace(usage=Usage(2011, 261), bytes_out=812, upstream_status=200, outcome="served"),
    )

    def work() -> None:
        life.reservation = None
        now = time.monotonic()
        if life.decision.match.route.limits is None:
            return
        limit = reserving.limit_of(life)
        assert limit is not None
        life.reservation = held = limit.reserve(2048, 250, now)
        told = headers.lines(limit, 2048, 250, now)
        if held is not None:
            reserving.settle(life, held, now)
            return
        shortage = limit.shortage(2048, now)
        limit.refused(shortage)
        refusing.refusal(limit, shortage, told)

    return work


def queued(shell: Shell, *, has_queue: bool) -> Callable[[], object]:
    """Everything that the data path does for the queue of one request's pool."""
    pool = shell.plane.pools[KEY]
    queue = pool.queue if has_queue else None
    priority = scheduling.Request(model="m", prompt_tokens=2048, output_tokens=250).priority

    def work() -> None:
        now = shell.now()
        if queue is None:
            return
        if not queue.passes(priority, now):
            raise AssertionError("there is no room")
        queue.room_made()  # at its first token
        queue.room_made()  # at its end
        if queue.counts_all:
            raise AssertionError("nobody waits")

    return work


def gateway() -> Shell:
    """A gateway whose pool is busy, but has free capacity."""
    shell = Shell(GatewaySettings(), Recorder(Registry(), None), asyncio.get_running_loop())
    endpoints = tuple(routing.Endpoint(f"default/{n}", "127.0.0.1", 9000 + n) for n in range(ENDPOINTS))
    shell.use(routing.Snapshot(pools={KEY: routing.Pool(key=KEY, endpoints=endpoints)}))
    for load in shell.plane.pools[KEY].loads:
        load.estimator.rates.learn(1, 2048, 0.1)
        for _ in range(IN_FLIGHT):
            booking = load.book(2048, 250, shell.now())
        booking.first_token(shell.now())
    return shell


def told(costs: dict[str, float]) -> None:
    loop_us = costs[pieces.LOOP]
    costs[QUEUE] -= costs.pop(NO_QUEUE)
    costs[TOTAL] = costs[BOTH] - costs[NO_LIMIT] + costs[QUEUE]
    print(f"{'for one request':44}{'µs':>8}{'loops':>8}")
    for name, cost in costs.items():
        print(f"{name:44}{cost:8.2f}{cost / loop_us:8.2f}")
    print(f"{'   of which it may take':44}{MAX_US:8.2f}{MAX_LOOPS:8.2f}")


async def main() -> None:
    shell = gateway()
    rows: dict[str, Callable[[], object]] = {pieces.LOOP: pieces.python_loop}
    rows |= {name: limited(limits) for name, limits in LIMITS.items()}
    rows |= {name: queued(shell, has_queue=name is QUEUE) for name in (NO_QUEUE, QUEUE)}
    told(pieces.costs_us(rows, repeats=REPEATS, runs=RUNS))
    await shell.close()


if __name__ == "__main__":
    asyncio.run(main())
