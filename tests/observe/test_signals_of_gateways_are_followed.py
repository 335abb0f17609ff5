"""Gateways that are slow, wrong, cut off or gone make the load unknown, never idle; and they are followed
again as soon as they answer."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.api import ObjectRef
from headgate.api.signal_names import MEANS, METRICS
from headgate.observe import signals as module
from headgate.observe.signals import Signals
from headgate.requests.pool_signals import PoolSignals, merged
from headgate.requests.stream_times import Times

POOL = ObjectRef("ModelServer", "default", "m")
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"


def pool(**figures: Any) -> dict[str, Any]:
    return {"kind": "ModelServer", "namespace": "default", "name": "m", "endpoints": 1, **figures}


def line(*pools: dict[str, Any], is_ready: bool = True, **more: Any) -> bytes:
    return json.dumps({"is_ready": is_ready, "pools": pools, **more}).encode() + b"\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class FakeGateway:
    """Answers each call with a head; lines are sent by the test."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.first = b""
        """Sent at once to whoever connects."""

    def __call__(self, call) -> None:
        assert call.target == "/signals?watch=1"
        self.calls.append(call)
        call.write(HEAD)
        if self.first:
            call.write(chunk(self.first))

    def send(self, data: bytes) -> None:
        self.calls[-1].write(chunk(data))


@pytest.fixture
async def follow(start_server):
    """Follows so many gateways that the test speaks for; gives the signals and the gateways."""
    running = []

    async def start(number: int, first: bytes = b""):
        gateways = [FakeGateway() for _ in range(number)]
        for gateway in gateways:
            gateway.first = first
        urls = [f"http://127.0.0.1:{await start_server(gateway)}" for gateway in gateways]
        signals = Signals()
        signals.use(urls)
        running.append(asyncio.create_task(signals.run()))
        return signals, gateways

    yield start
    for task in running:
        assert not task.done(), task
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def test_gateways_are_added_up(follow, eventually):
    """Sums are sums, ratios are means, and a pool is idle only if it is everywhere."""
    signals, (one, other, third) = await follow(3)
    assert signals.of(POOL).missing
    await eventually(lambda: one.calls and other.calls and third.calls)
    one.send(
        line(
            pool(
                requests_running=2,
                arrivals=1.5,
                prompt_tokens=900,
                cached_tokens=150,
                unbegun_tokens=600,
                prompt_squares=4,
                kv_usage=0.2,
                slo_requests=3,
                slo_misses=3,
                timed_requests=3,
                ttft_sum_s=0.3,
                timed_tokens=50,
                tokens_sum_s=1.0,
                queued_requests=1,
            )
        )
    )
    other.send(
        line(
            pool(
                requests_waiting=1,
                arrivals=0.5,
                prompt_tokens=100,
                cached_tokens=100,
                unbegun_tokens=200,
                prompt_squares=1.5,
                output_tokens=400,
                kv_usage=0.6,
                slo_requests=1,
                timed_requests=1,
                ttft_sum_s=0.5,
                timed_tokens=150,
                tokens_sum_s=5.0,
                idle_s=7.0,
            )
        )
    )
    await eventually(lambda: len(signals.of(POOL).missing) == 1)
    assert signals.of(POOL).metrics == {}
    assert signals.of(POOL).lower_bounds["headgate:arrivals"] == 2
    assert not signals.of(POOL).lower_bounds.keys() & MEANS
    assert signals.of(POOL).times == Times()
    third.send(line())  # it serves other namespaces
    await eventually(lambda: signals.of(POOL).is_known)
    load = signals.of(POOL)
    assert load.metrics == {
        "headgate:requests_running": 2,
        "headgate:requests_waiting": 1,
        "headgate:requests_in_flight": 3,
        "headgate:arrivals": 2,
        "headgate:prompt_tokens": 1000,
        "headgate:cached_tokens": 250,
        "headgate:output_tokens": 400,
        "headgate:work_seconds": 0,
        "headgate:kv_usage": pytest.approx(0.4),
        "headgate:slo_misses": 0.75,
        "headgate:ttft_seconds": pytest.approx(0.2),
        "headgate:itl_seconds": pytest.approx(0.03),
    }
    assert load.times == pytest.approx(Times(4, 0.8, 200, 6.0, 1))
    assert set(load.metrics) == set(METRICS)
    assert set(load.metrics) >= MEANS
    assert load.unbegun_tokens == 800
    assert load.prompt_squares == 5.5
    assert load.idle_s is None
    one.send(line(pool(idle_s=3.0)))
    await eventually(lambda: signals.of(POOL).idle_s == 3)
    assert "headgate:slo_misses" in signals.of(POOL).metrics
    assert signals.pools() == {POOL}


async def test_pools_that_nobody_knows_are_unknown(follow, eventually):
    signals, _ = await follow(1, line())
    await eventually(lambda: signals.statistics()["gateways_known"] == 1)
    load = signals.of(POOL)
    assert (load.is_known, load.idle_s, load.metrics, load.endpoints) == (False, None, {}, None)
    assert load.missing == ("no gateway knows the pool",)
    signals.use([])
    [told] = signals.of(POOL).missing
    assert told.startswith("no gateway is known")
    assert "--gateway-service" in told


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (line(pool(), is_ready=False), "not ready"),
        (line(pool(), no_answer=["worker 1 did not respond within 1 s"]), "worker 1"),
        (b"{}\n", "no page of signals"),
        (b"nonsense\n", "no page of signals"),
        (line(pool(requests_running=-1)), "no page of signals"),
        (line(pool(arrivals="many")), "no page of signals"),
        (line(pool()).replace(b'"endpoints": 1', b'"arrivals": 1e999'), "no page of signals"),
    ],
)
async def test_wrong_lines_make_the_load_unknown(follow, eventually, said, told):
    """Until a valid one follows, over the same connection or another."""
    signals, (gateway,) = await follow(1)
    await eventually(lambda: gateway.calls)
    gateway.send(said)
    await eventually(lambda: any(told in each for each in signals.of(POOL).missing))
    assert not signals.of(POOL).is_known
    gateway.first = line(pool(requests_running=4))
    if not gateway.calls[-1].transport.is_closing():
        gateway.send(gateway.first)
    await eventually(lambda: signals.of(POOL).metrics.get("headgate:requests_running") == 4)


async def test_lines_may_come_in_pieces_and_several_at_once(follow, eventually):
    signals, (gateway,) = await follow(1)
    await eventually(lambda: gateway.calls)
    text = line(pool(requests_running=1)) + line(pool(requests_running=2)) + line(pool(requests_running=3))
    for at in range(len(text)):
        gateway.send(text[at : at + 1])
        await asyncio.sleep(0)
    await eventually(lambda: signals.of(POOL).metrics.get("headgate:requests_running") == 3)
    gateway.send(line(pool(requests_running=4)) + line(pool(requests_running=5)))
    await eventually(lambda: signals.of(POOL).metrics.get("headgate:requests_running") == 5)


async def test_gateways_that_fall_silent_are_unknown(follow, eventually, monkeypatch):
    """Whether the connection stays open or not; a short gap is nothing."""
    monkeypatch.setattr(module, "STALE_S", 0.5)
    monkeypatch.setattr(module, "SILENCE_S", 1.0)
    signals, (gateway,) = await follow(1, line(pool(requests_running=4, idle_s=None)))
    await eventually(lambda: signals.of(POOL).is_known)
    gateway.first = b""
    await eventually(lambda: not signals.of(POOL).is_known)
    assert signals.of(POOL).idle_s is None
    await eventually(lambda: len(gateway.calls) >= 2)
    gateway.first = line(pool())
    gateway.calls[-1].close()
    await eventually(lambda: signals.of(POOL).is_known)


async def test_lines_that_trickle_are_given_up(follow, eventually, monkeypatch):
    """Bytes alone do not make a gateway known."""
    monkeypatch.setattr(module, "SILENCE_S", 0.5)
    signals, (gateway,) = await follow(1)
    await eventually(lambda: gateway.calls)

    async def trickle() -> None:
        while True:
            for call in gateway.calls:
                if not call.transport.is_closing():
                    call.write(chunk(b" "))
            await asyncio.sleep(0.02)

    trickling = asyncio.create_task(trickle())
    await eventually(lambda: any("no whole line within 1 s" in each for each in signals.of(POOL).missing))
    await eventually(lambda: len(gateway.calls) >= 2)
    trickling.cancel()


async def test_lines_that_never_end_are_cut_off(follow, eventually, monkeypatch):
    """Nobody fills the memory of a controller."""
    monkeypatch.setattr(module, "MAX_LINE_BYTES", 100_000)
    signals, (gateway,) = await follow(1)
    await eventually(lambda: gateway.calls)
    for _ in range(11):
        gateway.send(b"x" * 10_000)
    await eventually(lambda: any("more than 100000 bytes" in each for each in signals.of(POOL).missing))
    await eventually(lambda: len(gateway.calls) == 2)


async def test_answers_that_are_no_signals_are_told(start_server, eventually):
    """Another program on that port, or a gateway of another version."""

    def not_found(call) -> None:
        call.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")

    def hangs_up(call) -> None:
        call.close()

    ports = [await start_server(each) for each in (not_found, hangs_up)]
    signals = Signals()
    signals.use([f"http://127.0.0.1:{ports[0]}/", f"http://127.0.0.1:{ports[1]}", "http://[:::", "ftp://x"])
    running = asyncio.create_task(signals.run())
    told = ("answers 404", "http://", "http://[:::", "ftp://x")
    await eventually(
        lambda: all(
            any(text in each and "has not answered yet" not in each for each in signals.of(POOL).missing)
            for text in told
        )
    )
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_waiting_requests_are_told_even_if_a_gateway_is_missing(follow, eventually):
    """Each time that they begin to wait; a failure of the listener ends nothing."""
    signals, (one, _) = await follow(2)
    heard = []

    def starved(pool: ObjectRef) -> None:
        heard.append(pool)
        raise RuntimeError

    signals.on_starved = starved
    await eventually(lambda: one.calls)
    for number in (1, 2, 0, 1):
        one.send(line(pool(requests_waiting=number, waiting_for_endpoints=number), no_answer=["worker 0"]))
        await eventually(lambda number=number: signals.of(POOL).waiting_for_endpoints == number)
    assert heard == [POOL, POOL]
    assert not signals.of(POOL).is_known
    one.calls[-1].close()
    await eventually(lambda: not signals.starved())


async def test_work_that_rises_is_told_at_once(follow, eventually):
    """By much more than chance; a failure of the listener ends nothing."""
    signals, (one,) = await follow(1)
    heard = []

    def risen(pool: ObjectRef) -> None:
        heard.append((pool, signals.of(pool).metrics["headgate:work_seconds"]))
        raise RuntimeError

    signals.on_risen = risen
    await eventually(lambda: one.calls)
    for work in (1.0, 1.1, 5.0, 4.0, 4.1, 6.0):
        one.send(line(pool(work_seconds=work)))
        await eventually(lambda work=work: signals.of(POOL).metrics.get("headgate:work_seconds") == work)
    assert heard == [(POOL, 1.0), (POOL, 5.0), (POOL, 6.0)]


async def test_gateways_come_and_go(follow, eventually):
    """Those that are not to be followed any more do not count, and get no more calls."""
    signals, _ = await follow(2, line(pool(requests_running=1)))
    await eventually(lambda: signals.of(POOL).metrics.get("headgate:requests_running") == 2)
    (gone, stays) = signals.urls
    signals.use([stays])
    assert signals.of(POOL).metrics["headgate:requests_running"] == 1
    signals.use([])
    signals.use([stays, gone])
    await eventually(lambda: signals.of(POOL).metrics.get("headgate:requests_running") == 2)


FIGURES = st.builds(
    PoolSignals,
    kind=st.just("ModelServer"),
    namespace=st.just("default"),
    name=st.just("m"),
    endpoints=st.integers(0, 9),
    requests_running=st.integers(0, 9),
    requests_waiting=st.integers(0, 9),
    waiting_for_endpoints=st.integers(0, 9),
    idle_s=st.none() | st.floats(0, 1e6),
    arrivals=st.floats(0, 1e6),
    prompt_tokens=st.floats(0, 1e6),
    cached_tokens=st.floats(0, 1e6),
    output_tokens=st.floats(0, 1e6),
    work_seconds=st.floats(0, 1e6),
    unbegun_tokens=st.floats(0, 1e6),
    kv_usage=st.none() | st.floats(0, 1),
    slo_requests=st.integers(0, 9),
    slo_misses=st.integers(0, 9),
)


@given(st.lists(FIGURES, min_size=1, max_size=6))
def test_merging_loses_nothing(figures):
    """Idle only if all are, and since the last; a mean lies between its parts."""
    total = merged(figures)
    assert total.requests_running == sum(each.requests_running for each in figures)
    assert total.requests_waiting == sum(each.requests_waiting for each in figures)
    assert total.waiting_for_endpoints == sum(each.waiting_for_endpoints for each in figures)
    for name in ("prompt_tokens", "cached_tokens", "output_tokens", "unbegun_tokens"):
        assert getattr(total, name) == pytest.approx(sum(getattr(each, name) for each in figures))
    idle = [each.idle_s for each in figures]
    assert total.idle_s == (None if None in idle else min(idle))
    usages = [each.kv_usage for each in figures if each.kv_usage is not None]
    if usages:
        assert min(usages) - 1e-9 <= total.kv_usage <= max(usages) + 1e-9
    else:
        assert total.kv_usage is None
