"""The rows of the table: each has a load and a goal."""

from __future__ import annotations

import functools
import random
import resource
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvloop

import cpu
import load
import report

CONNECTIONS = 32
HTTP2_STREAMS = 4
"""Requests at a time on one of CONNECTIONS / HTTP2_STREAMS connections."""
STREAM_CHUNKS = 100
PACE_MS = 20
LAG_STREAMS = 64
ROUTES_ASKED = 100
OWN_FILES = 1200
"""Open files of a process besides those of its idle streams or connections: nginx has some hundreds."""


@dataclass(frozen=True)
class Settings:
    seconds: float
    warmup: float
    streams: int
    idle_streams: int
    idle_connections: int
    routes: int
    repeat: int
    pin: bool


@dataclass(frozen=True)
class Target:
    """The address that gets the load, and the process whose cost is measured."""

    address: str
    pid: int
    scratch: Path
    question: Callable[[int], tuple[str, bytes]] | None = None
    """Path and body of a request to the route with this number, if there are such routes."""

    def cost(self) -> float:
        return cpu.cpu_seconds(self.pid)

    def memory_kb(self) -> float:
        return cpu.memory_kb(self.pid)


Start = Callable[[int], Target]
"""Restarts the proxy with this many routes besides the catch-all route."""


@dataclass(frozen=True)
class Scenario(report.Row):
    """A row of the table and how it is measured."""

    engines: int
    cache_aware: bool
    run: Callable[[Start, Settings], load.Window]
    compares_bytes: bool = False
    """Whether it needs a proxy that forwards the engine's bytes unchanged."""
    needs_routes: bool = False
    is_secure: bool = False
    """Whether the proxy serves HTTPS."""


def requests(
    prompt_bytes: int, target: Target, settings: Settings, *, scheme: str = "http", is_kept: bool = True
) -> load.Window:
    """Requests of one size in turn, after a warm-up."""
    bodies = load.chat_bodies(prompt_bytes)
    measure = functools.partial(
        load.requests,
        target.address,
        bodies,
        connections=CONNECTIONS,
        cost=target.cost,
        scratch=target.scratch,
        scheme=scheme,
        is_kept=is_kept,
    )
    measure(seconds=settings.warmup)
    return measure(seconds=settings.seconds)


def _requests(prompt_bytes: int, start: Start, settings: Settings) -> load.Window:
    return requests(prompt_bytes, start(0), settings)


def _secure(start: Start, settings: Settings, *, is_kept: bool) -> load.Window:
    return requests(600, start(0), settings, scheme="https", is_kept=is_kept)


def _http2(start: Start, settings: Settings) -> load.Window:
    target = start(0)
    measure = functools.partial(
        load.http2_requests,
        target.address,
        load.chat_bodies(600)[0],
        connections=CONNECTIONS // HTTP2_STREAMS,
        streams=HTTP2_STREAMS,
        cost=target.cost,
        scratch=target.scratch,
    )
    measure(seconds=settings.warmup)
    return measure(seconds=settings.seconds)


def _chunks(start: Start, settings: Settings) -> load.Window:
    target = start(0)
    streams = load.StreamLoad(target.address, settings.streams, STREAM_CHUNKS)
    return uvloop.run(streams.run(settings.warmup, settings.seconds, target.cost))


def _lag(start: Start, settings: Settings) -> load.Window:
    target = start(0)
    streams = load.StampedLoad(target.address, LAG_STREAMS, STREAM_CHUNKS)
    return uvloop.run(streams.run(settings.warmup, settings.seconds, target.cost))


def _idle_streams(start: Start, settings: Settings) -> load.Window:
    return _idle(start(0), settings.idle_streams, load.IDLE_STREAM)


def _idle_connections(start: Start, settings: Settings) -> load.Window:
    return _idle(start(0), settings.idle_connections, load.IDLE_CONNECTION)


def _idle(target: Target, count: int, kind: load.Idle) -> load.Window:
    """Limit the count to what the proxy can open with two files each, one of them for the endpoint."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(count, (files - OWN_FILES) // 2)
    return uvloop.run(load.idle(target.address, count, kind, target.cost, target.memory_kb))


def _routes(start: Start, settings: Settings) -> load.Window:
    """Measure what the routes add to a proxy with only a catch-all route, and send requests to some."""
    target = start(0)
    before_kb, before_s = load.settled(target.memory_kb), target.cost()
    count = settings.routes
    target = start(count)
    ready_s = cpu.age_s(target.pid)
    added_kb, cpu_s = load.settled(target.memory_kb) - before_kb, target.cost() - before_s
    asked = random.Random(count).sample(range(count), min(count, ROUTES_ASKED))
    took, failures = load.asked_in_turn(target.address, [target.question(number) for number in asked])
    cuts = statistics.quantiles(took, n=100)
    return load.Window(count, ready_s, cpu_s, cuts[49], cuts[98], tuple(failures), added_kb / count)


SCENARIOS = (
    Scenario(
        name="request",
        title="request, 0.6 KB prompt",
        unit="request",
        times="latency",
        goal=report.CpuBudget(25),
        engines=1,
        cache_aware=False,
        run=functools.partial(_requests, 600),
    ),
    Scenario(
        name="request-8k",
        title="request, 8 KB prompt, 4 engines, cache-aware",
        unit="request",
        times="latency",
        goal=report.CpuBudget(30),
        engines=4,
        cache_aware=True,
        run=functools.partial(_requests, 8000),
    ),
    Scenario(
        name="tls",
        title="request over TLS, 0.6 KB prompt",
        unit="request",
        times="latency",
        goal=report.CpuBudget(30),
        engines=1,
        cache_aware=False,
        run=functools.partial(_secure, is_kept=True),
        is_secure=True,
    ),
    Scenario(
        name="tls-connect",
        title="request over TLS, each on a new connection",
        unit="request",
        times="latency",
        goal=report.CpuBudget(600),
        engines=1,
        cache_aware=False,
        run=functools.partial(_secure, is_kept=False),
        is_secure=True,
    ),
    Scenario(
        name="http2",
        title=f"request over HTTP/2 with TLS, {HTTP2_STREAMS} at a time on a connection",
        unit="request",
        times="latency",
        goal=report.CpuBudget(40),
        engines=1,
        cache_aware=False,
        run=_http2,
        is_secure=True,
    ),
    Scenario(
        name="chunk",
        title=f"streamed chunk, {PACE_MS} ms pace, 4 engines",
        unit="chunk",
        times="gap between chunks",
        goal=report.CpuBudget(12),
        engines=4,
        cache_aware=False,
        run=_chunks,
        compares_bytes=True,
    ),
    Scenario(
        name="lag",
        title=f"streamed chunk, {LAG_STREAMS} streams: from engine to client",
        unit="chunk",
        times="time under way",
        goal=report.AddedLatency(2.0),
        engines=4,
        cache_aware=False,
        run=_lag,
        compares_bytes=True,
    ),
    Scenario(
        name="idle",
        title="open idle streams",
        unit="stream",
        times="time to open 64",
        goal=report.MemoryBudget(40),
        engines=4,
        cache_aware=False,
        run=_idle_streams,
        compares_bytes=True,
    ),
    Scenario(
        name="connections",
        title="idle keep-alive connections, one request each",
        unit="connection",
        times="time to open 64",
        goal=report.MemoryBudget(10),
        engines=1,
        cache_aware=False,
        run=_idle_connections,
        compares_bytes=True,
    ),
    Scenario(
        name="routes",
        title="many routes",
        unit="route",
        times="latency, each request to another route",
        goal=report.MemoryBudget(5),
        engines=1,
        cache_aware=False,
        run=_routes,
        needs_routes=True,
    ),
)
