"""Endpoints whose load and readings are told."""

from collections.abc import Callable

import pytest

from headgate import fleet, routing
from headgate.fleet import EndpointState, EngineReading


@pytest.fixture
def load_of() -> Callable[..., EndpointState]:
    """Makes the load of an endpoint: requests in flight, and what its engine said, if anything."""
    ledger = fleet.Ledger()
    ports = iter(range(1, 1000))

    def make(
        waiting: int | None = None,
        kv: float | None = None,
        *,
        requests: int = 0,
        prompt: int = 100,
        output: int = 50,
        running: int = 0,
        at: float = 0.0,
        is_streamed: bool = True,
        is_known: bool = True,
        role: str = "",
    ) -> EndpointState:
        load = ledger.load(routing.Endpoint(f"e-{next(ports)}", "127.0.0.1", 8000))
        if is_known:
            load.estimator.rates.learn(1, 10_000, 1.0)
        for _ in range(requests):
            load.book(prompt, output, at, is_streamed)
        if waiting is not None or kv is not None:
            load.read(EngineReading(at=at, waiting=waiting or 0, running=running, kv_usage=kv))
        if role:
            load.labels = {"llm-d.ai/role": role}
        return load

    return make
