"""Endpoints as scheduling tests need them."""

import random
from collections.abc import Mapping, Sequence

from headgate import fleet, routing, scheduling
from headgate.fleet.reading import EngineReading
from headgate.scheduling import plugins


def endpoint(
    place: int = 0,
    *,
    waiting: int | None = None,
    running: int | None = None,
    kv: float | None = None,
    active: str = "",
    queued: str = "",
    max_adapters: int | None = None,
    requests: int = 0,
    tokens: int = 0,
    labels: Mapping[str, str] | None = None,
    ttft_s: float | None = None,
    tpot_s: float | None = None,
    models: frozenset[str] | None = None,
) -> fleet.EndpointState:
    """One endpoint with what its engine said, `requests` in flight at that time, and tokens to prefill."""
    load = fleet.EndpointState(routing.Endpoint(f"default/pod-{place}", "127.0.0.1", 8000 + place))
    load.requests, load.prefill_tokens = requests, tokens
    load.labels = labels or {}
    load.read(
        EngineReading(
            at=0.0,
            waiting=waiting,
            running=running,
            kv_usage=kv,
            ttft_s=ttft_s,
            tpot_s=tpot_s,
            adapters_running=frozenset(active.split()),
            adapters_waiting=frozenset(queued.split()),
            max_adapters=max_adapters,
            models=models,
        )
    )
    return load


def endpoints(*given: Mapping[str, object]) -> list[fleet.EndpointState]:
    return [endpoint(place, **each) for place, each in enumerate(given)]  # type: ignore[arg-type]


class Caches(plugins.NoPrefixes):
    """How many blocks each endpoint holds, by its place in the pool."""

    def __init__(self, pool: Sequence[fleet.EndpointState], held: Sequence[int]) -> None:
        self._held = dict(zip(pool, held, strict=True))

    def matched(self, prefix: Sequence[int], loads: Sequence[fleet.EndpointState]) -> list[int]:
        return [min(self._held.get(load, 0), len(prefix)) for load in loads]


def request(
    tokens: int = 100,
    *,
    blocks: int = 0,
    model: str = "m",
    adapter: str = "",
    priority: int = 0,
    **headers: str,
) -> scheduling.Request:
    """A request whose prompt has so many blocks; headers by their name with underscores."""
    by_name = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return scheduling.Request(
        model=model,
        adapter=adapter,
        prompt_tokens=tokens,
        prefix=tuple(range(1, blocks + 1)),
        block_tokens=tokens / blocks if blocks else 0.0,
        priority=priority,
        header=lambda name: by_name.get(name, ""),
    )


def cycle(
    asked: scheduling.Request | None = None,
    caches: plugins.PrefixIndex | None = None,
    *,
    now: float = 0.0,
    seed: int = 1,
    peer: fleet.EndpointState | None = None,
) -> plugins.Cycle:
    return plugins.Cycle(asked or request(), now, random.Random(seed), caches or plugins.NoPrefixes(), peer)
