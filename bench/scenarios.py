"""What is measured: the rows of the table, each with its load and its goal."""

from __future__ import annotations

import functools
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvloop

import cpu
import load
import report

CONNECTIONS = 32
STREAM_CHUNKS = 100
PACE_MS = 20
LAG_STREAMS = 64
OWN_FILES = 1200
"""Files that a process has open besides those of its streams: nginx has some hundreds."""


@dataclass(frozen=True)
class Settings:
    seconds: float
    warmup: float
    streams: int
    idle_streams: int
    repeat: int
    pin: bool


@dataclass(frozen=True)
class Target:
    """Where the load goes, and whose cost is read."""

    address: str
    pid: int
    scratch: Path

    def cost(self) -> float:
        return cpu.cpu_seconds(self.pid)

    def memory_kb(self) -> float:
        return cpu.memory_kb(self.pid)


@dataclass(frozen=True)
class Scenario(report.Row):
    """A row of the table, and how it is measured."""

    engines: int
    cache_aware: bool
    run: Callable[[Target, Settings], load.Window]
    compares_bytes: bool = False
    """Whether it needs a proxy that passes the engine's bytes on as they are."""


def requests(prompt_bytes: int, target: Target, settings: Settings) -> load.Window:
    """Requests of one size in turn, after a warm-up."""
    bodies = load.chat_bodies(prompt_bytes)
    measure = functools.partial(
        load.requests,
        target.address,
        bodies,
        connections=CONNECTIONS,
        cost=target.cost,
        scratch=target.scratch,
    )
    measure(seconds=settings.warmup)
    return measure(seconds=settings.seconds)


def _chunks(target: Target, settings: Settings) -> load.Window:
    streams = load.StreamLoad(target.address, settings.streams, STREAM_CHUNKS)
    return uvloop.run(streams.run(settings.warmup, settings.seconds, target.cost))


def _lag(target: Target, settings: Settings) -> load.Window:
    streams = load.StampedLoad(target.address, LAG_STREAMS, STREAM_CHUNKS)
    return uvloop.run(streams.run(settings.warmup, settings.seconds, target.cost))


def _idle(target: Target, settings: Settings) -> load.Window:
    """As many as a proxy that has two files for each may have open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    streams = min(settings.idle_streams, (files - OWN_FILES) // 2)
    return uvloop.run(load.idle(target.address, streams, target.cost, target.memory_kb))


SCENARIOS = (
    Scenario(
        name="request",
        title="request, 0.6 KB prompt",
        unit="request",
        times="latency",
        goal=report.CpuBudget(25),
        engines=1,
        cache_aware=False,
        run=functools.partial(requests, 600),
    ),
    Scenario(
        name="request-8k",
        title="request, 8 KB prompt, 4 engines, cache-aware",
        unit="request",
        times="latency",
        goal=report.CpuBudget(30),
        engines=4,
        cache_aware=True,
        run=functools.partial(requests, 8000),
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
        run=_idle,
        compares_bytes=True,
    ),
)
