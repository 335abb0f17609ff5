"""Engines to test: the pure model with plain numbers, and live servers on ephemeral loopback ports."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import httpx2
import msgspec
import pytest

from headgate.simulator.model import (
    PROFILES,
    EngineConfig,
    RemoteStore,
    RequestId,
    SimulatedRequest,
    StepCosts,
)
from headgate.simulator.server import Adapter, Ranks, ServerSettings, listen, running

COSTS = StepCosts(base_s=1.0, per_decode_sequence_s=0.1, per_kv_token_s=0.001, per_prefill_token_s=0.01)


EngineOf = Callable[..., EngineConfig]
RequestOf = Callable[..., SimulatedRequest]


@pytest.fixture
def small_engine() -> EngineOf:
    """Makes engines whose limits a handful of requests reach, and whose costs add up in the head."""

    def make(**overrides: object) -> EngineConfig:
        limits = {
            "costs": COSTS,
            "max_num_seqs": 2,
            "max_model_len": 64,
            "prefill_budget_tokens": 32,
            "kv_blocks": 16,
            "block_size": 4,
            "max_waiting": 100,
        }
        return EngineConfig(**{**limits, **overrides})

    return make


@pytest.fixture
def request_of() -> RequestOf:
    """Makes requests: a name, prompt tokens, output tokens, and anything else by keyword."""

    def make(name: str, prompt_tokens: int = 4, output_tokens: int = 3, **more: object) -> SimulatedRequest:
        return SimulatedRequest(
            request_id=RequestId(name), prompt_tokens=prompt_tokens, output_tokens=output_tokens, **more
        )

    return make


@dataclass
class Server:
    """A live server and a client that talks to it."""

    url: str
    live: Ranks
    client: httpx2.AsyncClient
    bootstrap_port: int | None = None


@contextlib.asynccontextmanager
async def _serve(
    *, bootstrap: bool = False, store: RemoteStore | None = None, **settings: object
) -> AsyncIterator[Server]:
    defaults = {"engine": PROFILES["fast"].config, "models": ("tiny",), "drain_s": 0}
    sock = listen("127.0.0.1", 0)
    second = listen("127.0.0.1", 0) if bootstrap else None
    made = ServerSettings(**{**defaults, **settings})
    url = f"{'https' if made.speaks_tls else 'http'}://127.0.0.1:{sock.getsockname()[1]}"
    async with (
        running(made, sock, second, store) as live,
        httpx2.AsyncClient(base_url=url, timeout=20, verify=False) as client,
    ):
        yield Server(url, live, client, second.getsockname()[1] if second else None)


Serve = Callable[..., contextlib.AbstractAsyncContextManager[Server]]


@pytest.fixture
def serve() -> Serve:
    """Starts a server for the length of an `async with`; by default its steps take no time."""
    return _serve


async def _eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    """Waits until something that another task brings about is so."""
    return _eventually


@pytest.fixture
def slow_engine() -> EngineConfig:
    """Steps of ten minutes: whatever a request gets here, it does not get by waiting."""
    costs = StepCosts(base_s=600, per_decode_sequence_s=0, per_kv_token_s=0, per_prefill_token_s=0)
    return msgspec.structs.replace(PROFILES["fast"].config, costs=costs)


@pytest.fixture
def fast() -> EngineOf:
    """Makes engines whose steps take no time."""

    def make(**overrides: object) -> EngineConfig:
        return msgspec.structs.replace(PROFILES["fast"].config, **overrides)

    return make


@pytest.fixture
def adapter() -> Callable[[str], Adapter]:
    """Makes adapters of a name."""

    def make(name: str) -> Adapter:
        return Adapter(name=name, path=f"/adapters/{name}")

    return make
