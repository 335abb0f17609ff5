"""Faulty endpoints behind a gateway with a manual clock, and clients that check every byte with h11."""

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import h11
import pytest
import uvloop

from headgate import fleet
from headgate.requests import states

# The faulty endpoint is shared with the soak, which is a script beside the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
sys.path.insert(0, str(Path(__file__).parent / "driver"))

import faults

PATIENCE_S = 60.0


def pytest_asyncio_loop_factories(config, item):
    """On the event loop that the gateway runs on: there are many faults."""
    return {"uvloop": uvloop.new_event_loop}


@dataclass
class View:
    """What a client sees of an answer. `end` is "kept" (the connection goes on), "closed" (after the answer)
    or "cut" (amid it)."""

    status: int
    body: bytes
    end: str


class Wire(asyncio.Protocol):
    """A client's connection that keeps every byte, also of those before a reset."""

    def __init__(self) -> None:
        self._data = b""
        self._changed = asyncio.Event()
        self._is_lost = False
        self._is_reset = False

    def connection_made(self, transport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        self._changed.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = True
        self._is_reset = error is not None
        self._changed.set()

    async def read(self) -> bytes:
        """What has come; b"" at the end."""
        async with asyncio.timeout(PATIENCE_S):
            while not self._data and not self._is_lost:
                self._changed.clear()
                await self._changed.wait()
        data, self._data = self._data, b""
        return data

    def close(self) -> None:
        if not self._is_lost:
            self.transport.abort()

    async def view(self) -> View:
        """Reads one answer as strictly as h11 does, and then finds out whether the connection goes on."""
        judge = h11.Connection(h11.CLIENT)
        judge.send(h11.Request(method="POST", target="/", headers=[("host", "x"), ("content-length", "0")]))
        judge.send(h11.EndOfMessage())
        seen = View(0, b"", "cut")
        while True:
            try:
                event = judge.next_event()
            except h11.RemoteProtocolError:
                return seen  # the end came too early: everything else would be a fault of ours
            if event is h11.NEED_DATA:
                data = await self.read()
                if not data and self._is_reset:
                    return seen
                judge.receive_data(data)
            elif isinstance(event, h11.Response):
                seen.status = event.status_code
            elif isinstance(event, h11.Data):
                seen.body += event.data
            else:
                assert isinstance(event, h11.EndOfMessage)
                assert judge.trailing_data[0] == b""
                seen.end = "kept" if await self._is_kept() else "closed"
                return seen

    async def _is_kept(self) -> bool:
        if self._is_lost:
            return False
        self.transport.write(b"GET /healthz HTTP/1.1\r\nhost: gateway\r\n\r\n")
        return (await self.read()).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.fixture
async def connect():
    """Connects to a gateway; the connections end with the test."""
    wires = []

    async def connect_to(gateway) -> Wire:
        loop = asyncio.get_running_loop()
        _, wire = await loop.create_connection(Wire, "127.0.0.1", gateway.port)
        wires.append(wire)
        return wire

    yield connect_to
    for wire in wires:
        wire.close()


@pytest.fixture
def clock(monkeypatch):
    """Moves a gateway's clock on until its one request is settled; silence is looked for at each step.

    The steps are small beside every limit, so that only what really waits is given up. A connection that is
    being made takes real time, so that the clock stands still meanwhile.
    """
    monkeypatch.setattr("headgate.gateway.shell.SWEEP_INTERVAL_S", 1e9)

    async def move(gateway) -> None:
        shell = gateway.shell
        (pool,) = shell.plane.pools.values()
        loop = asyncio.get_running_loop()
        moved_s = 0.0
        shell.services.now = lambda: loop.time() + moved_s
        async with asyncio.timeout(PATIENCE_S):
            while not pool.budget.requests:  # until then, it is the client that is waited for
                await asyncio.sleep(0.001)
            while any(client.exchange for client in shell.clients.all):
                await asyncio.sleep(0.001)
                if not any(_is_connecting(client) for client in shell.clients.all):
                    moved_s += 20.0
                    shell._sweep()
                    shell._sweeper.cancel()

    return move


def _is_connecting(client) -> bool:
    return client.exchange is not None and client.exchange.life.state == states.REACHING


@pytest.fixture
async def start_faulty():
    """Starts an endpoint that does the same to every request."""
    started = []

    async def start(fault: faults.Fault | None = None) -> faults.FaultyEndpoint:
        endpoint = faults.FaultyEndpoint(lambda _: fault)
        await endpoint.start()
        started.append(endpoint)
        return endpoint

    yield start
    for endpoint in started:
        await endpoint.stop()


@pytest.fixture
def without_bounds():
    """Lets a gateway's pools try again without a budget, and never avoid anybody: for long series."""

    def lift(gateway):
        for pool in gateway.shell.plane.pools.values():
            pool.budget = fleet.RetryBudget(0.0, fleet.RetryBudgetPolicy(floor_per_s=1e9))
            for load in pool.loads:
                load.suspect_until = 0.0

    return lift


def descriptors() -> int:
    """How many files this process has open."""
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(name="descriptors")
def _descriptors():
    """Counts the open files."""
    return descriptors


@pytest.fixture
def nothing_is_left(eventually):
    """Checks that a gateway without clients has nothing open but what it had, and that its books balance."""

    async def check(gateway, files_before: int) -> None:
        shell = gateway.shell
        await eventually(lambda: not shell.clients.all)
        shell.plane.ledger.validate()
        assert (
            shell.plane.ledger.statistics()["requests"] == shell.plane.ledger.statistics()["work_tokens"] == 0
        )
        for connections in shell.all_connections():
            await eventually(lambda c=connections: c.statistics()["open"] == c.statistics()["idle"])
            connections.close()
        await eventually(lambda: not shell.services.background._tasks)
        await eventually(lambda: descriptors() <= files_before)
        await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()})

    return check
