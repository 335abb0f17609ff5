"""The cost of releasing 5,000 queued requests when capacity returns: `python bench/release.py`.

They wait in 50 flows for a pool without endpoints, which then gets 20. First the queue alone, then with the
gateway's metrics of each wait, then with everything needed to send a request: its endpoint is picked, and it
is written to a connection. Nothing is sent over a network. CPU time of one process, the minimum of several
runs; the longest time that other work on the event loop waits is reported as well.
"""

from __future__ import annotations

import asyncio
import gc
import math
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import load
import pieces
from headgate import api, fleet, garbage, routing, scheduling
from headgate.dataplane.records.recorder import Recorder
from headgate.dataplane.trust import Networks, Peer
from headgate.flow import capacity
from headgate.flow.capacity import CapacitySettings
from headgate.flow.queue import FlowQueue, FlowSettings, Waiting
from headgate.gateway import GatewaySettings
from headgate.gateway.listener import ClientConnection
from headgate.gateway.request import ParsedHead, Request
from headgate.gateway.shell import Shell
from headgate.gateway.upstream import UpstreamConnection
from headgate.requests.data_plane import DataPlane
from headgate.requests.decision import Decision
from headgate.requests.life import Life
from headgate.requests.received import ReceivedBody
from headgate.telemetry import Registry

REQUESTS, FLOWS, ENDPOINTS, RUNS = 5000, 50, 20, 5
GOAL_MS = 100.0
LOOP = {pieces.LOOP: pieces.python_loop}
KEY = api.ObjectRef("ModelServer", "default", "pool")
ROUTE = api.ObjectRef("ModelRoute", "default", "route")
SETTINGS = GatewaySettings().replace(
    queue_fairness_ids_from="anyone",
    endpoints_max_idle_connections=REQUESTS,
    engine_metrics_enabled=False,
)


class Measured:
    """CPU time of iterations of the loop."""

    def __init__(self) -> None:
        self.total_s = self.longest_s = 0.0

    def turn(self, work: Callable[[], object]) -> None:
        began = time.process_time()
        work()
        self._took(time.process_time() - began)

    async def until(self, is_over: Callable[[], bool]) -> None:
        """Run the loop's own iterations, one after the other."""
        while not is_over():
            began = time.process_time()
            await asyncio.sleep(0)
            self._took(time.process_time() - began)

    def _took(self, seconds: float) -> None:
        self.total_s += seconds
        self.longest_s = max(self.longest_s, seconds)


async def queue_alone() -> Measured:
    """Only the order is decided."""
    room = capacity.make(CapacitySettings())
    queue = FlowQueue(FlowSettings(), room, random.Random(1))
    for number in range(REQUESTS):
        waiting = Waiting(
            number, flow=str(number % FLOWS), priority=0, work=200, size=600, arrived=0.0, deadline=60.0
        )
        assert queue.enter(waiting, 0.0) is None
    room.follow([fleet.EndpointState(endpoint) for endpoint in endpoints()])
    sent: list[Any] = []

    def release() -> None:
        while (waiting := queue.next(1.0)) is not None:
            sent.append(waiting.owner)

    measured = Measured()
    measured.turn(release)
    assert sorted(sent) == list(range(REQUESTS))
    return measured


class Held:
    """A request as its queue sees it; recorded, but not sent."""

    def __init__(self, plane: DataPlane, number: int, now: float, sent: list[Held]) -> None:
        headers = [(b"x-headgate-fairness-id", b"flow-%d" % (number % FLOWS))]
        peer = Peer("", Networks(()))
        head = ParsedHead(b"POST", b"/v1/completions", headers, False, peer, b"g")
        request = Request(head, b"", True, now)
        decision = Decision()
        decision.scheduled = scheduling.Request(model="m", prompt_tokens=100, output_tokens=100)
        self.life = Life(plane, request, ReceivedBody(request.path), decision)
        self._sent = sent

    def admitted(self, pool: object, now: float) -> None:
        self._sent.append(self)


async def with_what_is_counted() -> Measured:
    shell = gateway()
    sent: list[Held] = []
    queue = shell.queues.all()[0]
    for number in range(REQUESTS):
        held: Any = Held(shell.plane, number, shell.now(), sent)
        queue.hold(held, shell.now())
    shell.use(snapshot(endpoints()))
    measured = Measured()
    await measured.until(lambda: not queue.held)
    assert len(set(sent)) == len(sent) == REQUESTS
    await shell.close()
    return measured


class Wire(asyncio.Transport):
    """Counts writes and discards the data."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0

    def write(self, data: object) -> None:
        self.written += 1

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("127.0.0.1", 1) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        pass


async def with_all_that_sends() -> Measured:
    shell = gateway()
    for request in requests():
        client = ClientConnection(shell.services, shell.clients)
        client.connection_made(Wire())
        client.data_received(request)
    queue = shell.queues.all()[0]
    await Measured().until(lambda: queue.held == REQUESTS)  # not all are read in one iteration
    shell.use(snapshot(endpoints()))
    wires = connected(shell)
    measured = Measured()
    await measured.until(lambda: not queue.held)
    assert sum(wire.written for wire in wires) == REQUESTS
    assert sum(each.requests for each in shell.plane.pools[KEY].loads) == REQUESTS
    for client in list(shell.clients.all):
        client.connection_lost(None)
    await shell.close()
    return measured


def gateway() -> Shell:
    shell = Shell(SETTINGS, Recorder(Registry(), None), asyncio.get_running_loop())
    shell._sweeper.cancel()  # periodic work is not measured
    shell.use(snapshot([]))
    shell.plane.is_ready = True
    return shell


def endpoints() -> list[routing.Endpoint]:
    return [routing.Endpoint(f"default/{n}", "127.0.0.1", 9000 + n) for n in range(ENDPOINTS)]


def snapshot(endpoints: list[routing.Endpoint]) -> routing.Snapshot:
    rule = routing.Rule("all", None, (routing.Target(KEY, 100),))
    route = routing.Route(
        key=ROUTE, name="default/route", model=load.upstream.MODEL, adapters=(), rules=(rule,)
    )
    pool = routing.Pool(key=KEY, endpoints=tuple(endpoints))
    return routing.Snapshot(models={load.upstream.MODEL: (route,)}, pools={KEY: pool})


def requests() -> Iterator[bytes]:
    bodies = load.chat_bodies(600)
    for number in range(REQUESTS):
        body = bodies[number % len(bodies)]
        yield (
            b"POST %b HTTP/1.1\r\nhost: gateway\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            b"x-headgate-fairness-id: flow-%d\r\n\r\n%b"
            % (load.CHAT_PATH.encode(), len(body), number % FLOWS, body)
        )


def connected(shell: Shell) -> list[Wire]:
    """As many connections to each endpoint as it may get requests."""
    wires = []
    pool = shell.plane.pools[KEY]
    for each in pool.loads:
        home = shell.services.connections_to(pool, each)
        for _ in range(SETTINGS.endpoints.max_connections):
            connection = UpstreamConnection(home)
            wires.append(Wire())
            connection.connection_made(wires[-1])
            home._open.add(connection)
            home.give_back(connection)
    return wires


async def main() -> None:
    garbage.spare_what_there_is()
    steps = {
        "the queue alone": queue_alone,
        "with what the gateway counts": with_what_is_counted,
        "with all that sends": with_all_that_sends,
    }
    runs: dict[str, list[Measured]] = {name: [] for name in steps}
    loop_us = math.inf
    for _ in range(RUNS):
        for name, step in steps.items():
            loop_us = min(loop_us, *pieces.costs_us(LOOP, repeats=300, runs=10).values())
            gc.collect()  # garbage of the previous step must not count here
            runs[name].append(await step())
    print(f"{pieces.LOOP}: {loop_us:.2f} µs")
    print(f"{'5,000 requests are released':32}{'CPU ms':>9}{'µs each':>9}{'loops':>7}{'longest turn ms':>17}")
    for name, measured in runs.items():
        total_s = min(run.total_s for run in measured)
        each_us = total_s / REQUESTS * 1e6
        longest_ms = min(run.longest_s for run in measured) * 1e3
        print(f"{name:32}{total_s * 1e3:9.1f}{each_us:9.2f}{each_us / loop_us:7.2f}{longest_ms:17.2f}")
    print(f"{'   of which it may take':32}{GOAL_MS:9.1f}{GOAL_MS / REQUESTS * 1e3:9.2f}")


if __name__ == "__main__":
    asyncio.run(main())
