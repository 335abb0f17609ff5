"""From the signal to stop: readiness says no, requests end, nothing is left; or at once, if told twice."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import pytest

REQUEST = b"POST /v1/completions HTTP/1.1\r\nhost: g\r\ncontent-length: %d\r\n\r\n%s"
PLAIN = b'{"model": "m", "prompt": "x"}'
STREAM = b'{"model": "m", "prompt": "x", "stream": true}'


def request(body: bytes) -> bytes:
    return REQUEST % (len(body), body)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z (zombie)" not in Path(f"/proc/{pid}/status").read_text()


@pytest.fixture
def held(engine):
    """Streams that do not go on until the test lets them."""
    engine.hold.set()
    yield engine.hold
    engine.hold.clear()


async def test_a_lame_duck_serves_and_running_streams_end(start_gateway, connect, held, eventually):
    """Until the time is over new connections are served, with the word that they end; then streams finish."""
    gateway = await start_gateway("--shutdown-lameduck-s", "3600", "--shutdown-drain-s", "60")
    workers = gateway.workers()
    reader, streaming = await connect(gateway)
    streaming.write(request(STREAM))
    await reader.readuntil(b"data: ")
    await connect(gateway)  # idle
    gateway.signal(signal.SIGTERM)
    await eventually(lambda: gateway.get("/readyz").status_code == 503)
    late_reader, late = await connect(gateway)
    late.write(request(PLAIN))
    answer = await late_reader.read()
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"connection: close\r\n" in answer
    held.clear()
    assert (await reader.readuntil(b"0\r\n\r\n")).count(b"data: ") == 5
    assert gateway.process.poll() is None
    gateway.signal(signal.SIGINT)  # enough of it
    assert await asyncio.to_thread(gateway.process.wait, 60) == -signal.SIGINT
    await eventually(lambda: not any(map(is_alive, workers)))


async def test_a_drain_waits_for_requests_and_for_nothing_else(start_gateway, connect, held, eventually):
    """New connections are refused, idle ones closed; exit code 0 when the last stream has ended."""
    gateway = await start_gateway("--workers", "2", "--shutdown-drain-s", "60")
    workers = gateway.workers()
    reader, streaming = await connect(gateway)
    streaming.write(request(STREAM))
    await reader.readuntil(b"data: ")
    idle_reader, idle = await connect(gateway)
    idle.write(request(PLAIN))
    assert (await idle_reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    gateway.signal(signal.SIGTERM)
    await idle_reader.read()
    # Each worker hears of it in its own time; who was taken in by one that had not yet is let go, and who
    # waited to be taken in is reset.
    with contextlib.suppress(ConnectionRefusedError, ConnectionResetError):
        while gateway.process.poll() is None:
            await connect(gateway)
    assert gateway.get("/debug/requests").json()["total"] == 1
    held.clear()
    assert (await reader.readuntil(b"0\r\n\r\n")).count(b"data: ") == 5
    assert await asyncio.to_thread(gateway.process.wait, 60) == 0
    assert not any(map(is_alive, workers))


async def test_what_does_not_end_in_time_is_cut_off(start_gateway, connect, held):
    """The stream breaks without a false end, and the gateway ends well all the same."""
    gateway = await start_gateway("--shutdown-drain-s", "0.1")
    reader, writer = await connect(gateway)
    writer.write(request(STREAM))
    await reader.readuntil(b"data: ")
    assert await gateway.stop() == 0
    with pytest.raises((ConnectionError, EOFError)):
        await reader.readuntil(b"0\r\n\r\n")


async def test_workers_do_not_outlive_a_killed_supervisor(start_gateway, eventually):
    """They drain and end by themselves."""
    gateway = await start_gateway("--shutdown-drain-s", "1")
    workers = gateway.workers()
    gateway.process.kill()
    await asyncio.to_thread(gateway.process.wait, 60)
    await eventually(lambda: not any(map(is_alive, workers)))
