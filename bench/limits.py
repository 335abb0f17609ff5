"""What a token limit costs a request: reserving, the headers of its answer, and settling at its end.

CPU time of one process, the least of several runs. The first line is a plain Python loop, by which the
machine's speed can be told: `python bench/limits.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pieces
from headgate import api, routing
from headgate.flow.limits import RouteLimits
from headgate.gateway import limiting
from headgate.gateway.usage import Usage

REPEATS, RUNS = 300, 60
UNIT = {"unit": "minute", "unit_s": 60}
LIMITS = {
    "no limit: the question alone": None,
    "input": routing.TokenLimits(input=10**9, **UNIT),
    "output": routing.TokenLimits(output=10**9, **UNIT),
    "input and output": routing.TokenLimits(input=10**9, output=10**9, **UNIT),
    "refused": routing.TokenLimits(input=1000, **UNIT),
}


def request_of(limits: routing.TokenLimits | None) -> Callable[[], object]:
    """All that the data path does for the limit of one request, as an exchange has it."""
    key = api.ObjectRef("ModelRoute", "default", "route")
    route = routing.Route(key=key, name="default/route", model="m", adapters=(), rules=(), limits=limits)
    proxy: Any = SimpleNamespace(token_limits=RouteLimits(), now=time.monotonic)
    proxy.token_limits.use([route], time.monotonic())
    exchange: Any = SimpleNamespace(
        decision=SimpleNamespace(
            match=SimpleNamespace(route=route),
            scheduled=SimpleNamespace(prompt_tokens=2048, output_tokens=250),
            stream=False,
        ),
        reservation=None,
        usage=Usage(prompt_tokens=2011, completion_tokens=261),
        bytes_out=812,
        upstream_status=200,
        outcome="served",
    )

    def work() -> None:
        exchange.reservation = None
        if (
            exchange.decision.match.route.limits is not None
            and limiting.reserve(proxy, exchange, None) is not None
        ):
            return
        if exchange.reservation is not None:
            limiting.lines(exchange.reservation, proxy.now())
        if exchange.reservation is not None:
            limiting.settle(exchange, exchange.reservation, proxy.now())

    return work


def main() -> None:
    rows: dict[str, Callable[[], object]] = {pieces.LOOP: pieces.python_loop}
    costs = pieces.costs_us(
        rows | {name: request_of(limits) for name, limits in LIMITS.items()}, repeats=REPEATS, runs=RUNS
    )
    print("a token limit, for one request: µs of CPU")
    for name, cost in costs.items():
        print(f"{name:34}{cost:8.2f}")


if __name__ == "__main__":
    main()
