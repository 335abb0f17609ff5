"""The stream load against the benchmark's own engines."""

import pytest

import load
import upstream

STREAMS, CHUNKS, PACE_S = 8, 10, 0.005


async def run_load(port: int, cost: load.Cost = lambda: 0.0) -> tuple[load.StreamLoad, load.Window]:
    servers = await upstream.serve([("127.0.0.1", port)], PACE_S)
    streams = load.StreamLoad(f"127.0.0.1:{port}", STREAMS, CHUNKS)
    window = await streams.run(warmup=0.05, seconds=0.6, cost=cost)
    for server in servers:
        server.close()
    return streams, window


async def test_intact_streams_are_counted_and_followed_to_their_end(unused_tcp_port: int) -> None:
    """Every chunk of every stream is counted, and none is left open or broken."""
    streams, window = await run_load(unused_tcp_port)
    assert window.failures == ()
    assert streams.complete >= STREAMS
    assert streams.chunks == streams.complete * CHUNKS
    assert 0 < window.work < streams.chunks


async def test_cost_is_what_was_spent_inside_the_window(unused_tcp_port: int) -> None:
    """The cost of a chunk is the difference of two readings over the chunks between them."""
    readings = iter([5.0, 5.5])
    _, window = await run_load(unused_tcp_port, cost=lambda: next(readings))
    assert window.cpu_us == pytest.approx(0.5e6 / window.work)


async def test_a_changed_byte_is_a_failure(monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int) -> None:
    """A stream whose bytes differ in one place is reported, whatever its length."""
    frames = [*upstream.FRAMES[:3], upstream.FRAMES[3].replace(b"token", b"tokem"), *upstream.FRAMES[4:]]
    monkeypatch.setattr(upstream, "FRAMES", frames)
    _, window = await run_load(unused_tcp_port)
    assert len(window.failures) == STREAMS
    assert "bytes differ" in window.failures[0]


async def test_a_stream_that_ends_early_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    """A well-formed response that lacks its last event is reported."""
    monkeypatch.setattr(upstream, "END", b"0\r\n\r\n")
    _, window = await run_load(unused_tcp_port)
    assert len(window.failures) == STREAMS
    assert "ended after" in window.failures[0]
