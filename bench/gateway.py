"""Compares the cost of a request, a streamed chunk, an idle connection and a route in Headgate, nginx, Envoy,
three Rust routers and LiteLLM, in one table.

The result is the CPU time of the proxy per completed item, or its memory per open one; docs/benchmarks.md
explains what is measured and why.

    make bench
    make bench ARGS="--only headgate,nginx --scenario chunk --repeat 3"
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import click
import httpx2
from rich.console import Console

import cpu
import load
import ports
import proxies
import report
from scenarios import CONNECTIONS, PACE_MS, SCENARIOS, STREAM_CHUNKS, Scenario, Settings, Target, requests

RESULTS = Path(__file__).with_name("results") / "gateway.jsonl"
PROXY_CPU = 0  # with --pin
ENGINES = tuple(f"127.71.0.{number}" for number in range(1, 5))

progress = Console(stderr=True)


@dataclass
class Cell:
    """One proxy in one scenario: a window per repetition, or why there is none."""

    proxy: str
    scenario: str
    unavailable: str = ""
    windows: list[load.Window] = field(default_factory=list)
    memory_mb: float = 0.0

    @property
    def cpu_us(self) -> float:
        return statistics.median(window.cpu_us for window in self.windows)

    @property
    def failures(self) -> list[str]:
        return [failure for window in self.windows for failure in window.failures]

    def median(self, read: Callable[[load.Window], float]) -> float:
        return statistics.median(map(read, self.windows))

    def record(self) -> dict[str, Any]:
        if self.unavailable:
            return {"proxy": self.proxy, "scenario": self.scenario, "unavailable": self.unavailable}
        costs = [round(window.cpu_us, 2) for window in self.windows]
        return {
            "proxy": self.proxy,
            "scenario": self.scenario,
            "cpu_us": round(self.cpu_us, 2),
            "cpu_us_min": min(costs),
            "cpu_us_max": max(costs),
            "per_second": round(self.median(lambda window: window.work / window.seconds)),
            "p50_ms": round(self.median(lambda window: window.p50_ms), 3),
            "p99_ms": round(self.median(lambda window: window.p99_ms), 3),
            "memory_mb": round(self.memory_mb),
            "kb_each": round(self.median(lambda window: window.kb_each or 0.0), 1) or None,
            "work": [window.work for window in self.windows],
            "failures": self.failures[:10],
        }


@contextlib.contextmanager
def engines() -> Iterator[tuple[int, int]]:
    """Run the engine process; yields its pid and the port on which all of its addresses listen."""
    port = ports.held_port(ENGINES[0])
    listen = [option for host in ENGINES for option in ("--listen", f"{host}:{port}")]
    script = Path(__file__).with_name("upstream.py")
    command = [sys.executable, str(script), *listen, "--pace-ms", str(PACE_MS)]
    with (proxies.CACHE / "run" / "engines.err").open("wb") as errors:
        process = subprocess.Popen(command, stderr=errors, start_new_session=True)
    try:
        proxies.wait_until_listening(ENGINES[-1], port)
        yield process.pid, port
    finally:
        process.terminate()
        process.wait()


def measure(proxy: proxies.Proxy, scenario: Scenario, port: int, settings: Settings, cell: Cell) -> None:
    """Add one window to the cell, measured with a newly started proxy."""
    if scenario.compares_bytes and not proxy.passes_bytes:
        cell.unavailable = "it rewrites responses"
        return
    if scenario.needs_routes and not proxy.has_routes:
        cell.unavailable = "it has no routes"
        return
    if scenario.is_secure and not proxy.has_tls:
        cell.unavailable = "it serves no TLS"
        return
    proxy.is_secure = scenario.is_secure
    upstreams = [(host, port) for host in ENGINES[: scenario.engines]]
    target: Target | None = None

    def start(routes: int) -> Target:
        nonlocal target
        proxy.stop()
        listening, pid = proxy.start(upstreams, scenario.cache_aware, routes)
        target = Target(f"127.0.0.1:{listening}", pid, proxies.CACHE / "run", proxy.question)
        return target

    try:
        window = scenario.run(start, settings)
        if not window.work:
            raise RuntimeError(f"no {scenario.unit} was completed: {', '.join(window.failures[:3])}")
        cell.windows.append(window)
        cell.memory_mb = max(cell.memory_mb, cpu.peak_memory_mb(target.pid))
    except (proxies.UnavailableError, RuntimeError, OSError, httpx2.HTTPError) as error:
        cell.unavailable = str(error) or type(error).__name__
    finally:
        proxy.stop()


def compare(chosen: Sequence[str], scenarios: Sequence[Scenario], settings: Settings) -> dict[str, Any]:
    """Measure every cell; return the run in the format of the results file."""
    (proxies.CACHE / "run").mkdir(parents=True, exist_ok=True)
    candidates = {name: proxies.PROXIES[name](PROXY_CPU if settings.pin else None) for name in chosen}
    versions: dict[str, str] = {}
    cells = {(name, scenario.name): Cell(name, scenario.name) for name in chosen for scenario in scenarios}
    for name, proxy in candidates.items():
        try:
            versions[name] = proxy.install()
        except proxies.UnavailableError as error:
            for scenario in scenarios:
                cells[name, scenario.name].unavailable = str(error)
    with engines() as (pid, port):
        direct = upstream_alone(pid, port, settings)
        # Repetitions cycle through all cells, so that a slow minute of the machine affects all proxies
        # equally.
        for repetition in range(settings.repeat):
            for scenario in scenarios:
                for name, proxy in candidates.items():
                    if not cells[name, scenario.name].unavailable:
                        progress.print(f"[dim]{repetition + 1}/{settings.repeat} {scenario.title}: {name}")
                        measure(proxy, scenario, port, settings, cells[name, scenario.name])
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": cpu.machine()
        | {name: metadata.version(name) for name in ("uvloop", "httptools", "msgspec")},
        "settings": asdict(settings)
        | {"connections": CONNECTIONS, "stream_chunks": STREAM_CHUNKS, "pace_ms": PACE_MS},
        "versions": versions,
        "upstream_alone": direct,
        "cells": [cell.record() for cell in cells.values()],
    }


def upstream_alone(pid: int, port: int, settings: Settings) -> dict[str, float]:
    """Throughput of the engines without a proxy, which must not be the bottleneck."""
    target = Target(f"{ENGINES[0]}:{port}", pid, proxies.CACHE / "run")
    window = requests(600, target, replace(settings, seconds=1, warmup=1))
    return {"requests_per_second": round(window.work / window.seconds), "cpu_us": round(window.cpu_us, 2)}


def commit() -> str:
    """The commit of the checkout, marked if the package differs from it."""
    git = ["git", "-C", str(proxies.ROOT)]
    shown = subprocess.run(
        [*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False
    )
    if shown.returncode != 0:
        return "unknown"
    changed = subprocess.run(
        [*git, "status", "--porcelain", "--", "src"], capture_output=True, text=True, check=True
    )
    return shown.stdout.strip() + ("-dirty" if changed.stdout.strip() else "")


def selection(known: Sequence[str]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """A comma-separated selection from `known`, in the order of `known`."""

    def parse(context: click.Context, parameter: click.Parameter, value: str) -> list[str]:
        names = [name.strip() for name in value.split(",") if name.strip()]
        if unknown := [name for name in names if name not in known]:
            raise click.BadParameter(f"{', '.join(unknown)}: not one of {', '.join(known)}")
        return [name for name in known if name in names]

    return parse


def pin_to_other_cpus() -> None:
    """Reserve the first CPU for the proxy; engines and load generators inherit the rest."""
    if others := os.sched_getaffinity(0) - {PROXY_CPU}:
        os.sched_setaffinity(0, others)


NAMES = tuple(proxies.PROXIES)
ROWS = tuple(scenario.name for scenario in SCENARIOS)


@click.command(help=__doc__)
@click.option("--seconds", type=click.FloatRange(1), default=6, show_default=True, help="Length of a window.")
@click.option(
    "--repeat", type=click.IntRange(1), default=1, show_default=True, help="Windows per cell (median)."
)
@click.option("--streams", type=click.IntRange(1), default=256, show_default=True, help="Concurrent streams.")
@click.option(
    "--idle-streams",
    type=click.IntRange(1),
    default=20_000,
    show_default=True,
    help="Idle streams; fewer if a process may not open two files for each.",
)
@click.option(
    "--idle-connections",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    help="Idle keep-alive connections; fewer as of idle streams.",
)
@click.option(
    "--routes", type=click.IntRange(2), default=10_000, show_default=True, help="Routes of a proxy."
)
@click.option(
    "--only", callback=selection(NAMES), default=",".join(NAMES), show_default=True, help="Proxies."
)
@click.option("--scenario", callback=selection(ROWS), default=",".join(ROWS), show_default=True, help="Rows.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option(
    "--pin", is_flag=True, help="Give the first CPU to the proxy and the others to everything else."
)
@click.option("--quick", is_flag=True, help="A smoke run: one second windows, few streams, nothing recorded.")
def main(
    seconds: float,
    repeat: int,
    streams: int,
    idle_streams: int,
    idle_connections: int,
    routes: int,
    only: list[str],
    scenario: list[str],
    output: str,
    pin: bool,
    quick: bool,
) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwind, to stop every started process
    settings = Settings(seconds, 1.5, streams, idle_streams, idle_connections, routes, repeat, pin)
    if quick:
        settings = replace(
            settings,
            seconds=1,
            warmup=1,
            streams=min(streams, 32),
            idle_streams=min(idle_streams, 200),
            idle_connections=min(idle_connections, 200),
            routes=min(routes, 200),
            repeat=1,
        )
    if shutil.which("wrk") is None:
        raise click.ClickException("wrk is not installed: apt-get install wrk")
    if pin:
        pin_to_other_cpus()
    chosen = [row for row in SCENARIOS if row.name in scenario]
    run = compare(only, chosen, settings)
    if not quick:
        RESULTS.parent.mkdir(exist_ok=True)
        with RESULTS.open("a") as results:
            results.write(json.dumps(run) + "\n")
    if output == "json":
        click.echo(json.dumps(run, indent=2))
    else:
        report.show(run, only, chosen, Console())
    if any(cell.get("failures") for cell in run["cells"]):
        raise click.ClickException("some work failed; the table says what")


if __name__ == "__main__":
    main()
