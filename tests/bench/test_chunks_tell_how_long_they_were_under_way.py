"""The load of the row that looks at the time under way, against the benchmark's own engines."""

import contextlib
from collections.abc import AsyncIterator

import pytest

import load
import upstream

PACE_S = 0.005


@contextlib.asynccontextmanager
async def engine(port: int) -> AsyncIterator[str]:
    servers = await upstream.serve([("127.0.0.1", port)], PACE_S)
    yield f"127.0.0.1:{port}"
    for server in servers:
        server.close()


async def test_stamps_tell_the_time_from_engine_to_client(unused_tcp_port: int) -> None:
    """Chunks that nothing holds up are under way for far less than the 100 s after which stamps repeat."""
    async with engine(unused_tcp_port) as address:
        streams = load.StampedLoad(address, 4, 10)
        window = await streams.run(warmup=0.05, seconds=0.6, cost=lambda: 0.0)
    assert window.failures == ()
    assert window.work > 0
    assert 0 <= window.p50_ms <= window.p99_ms < 5_000


async def test_a_late_chunk_is_seen(monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int) -> None:
    """A chunk that was sent 3 s ago, by its stamp, counts as 3 s under way."""
    async with engine(unused_tcp_port) as address:
        streams = load.StampedLoad(address, 4, 10)
        sent = upstream.event
        monkeypatch.setattr(upstream, "event", lambda number: sent((number - 3_000_000) % upstream.STAMPS))
        window = await streams.run(warmup=0.05, seconds=0.6, cost=lambda: 0.0)
    assert 3_000 <= window.p50_ms < 8_000
