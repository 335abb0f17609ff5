"""Compares the cost of a request in endpoint pickers and in the Envoy that asks them: `make bench-picker`.

Each picker is asked by a fresh Envoy of one thread, over external processing in the mode FULL_DUPLEX_STREAMED
both ways: the bodies of requests and responses pass through the picker. The result is CPU time of the process
of the picker and of Envoy for each request, and the picker's CPU at rest, in which it reads its engines.

    make bench-picker
    make bench-picker ARGS="--only headgate,naive --repeat 3"
"""

from __future__ import annotations

import json
import signal
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import httpx2
from rich.console import Console
from rich.table import Table

import cpu
import gateway
import load
import ports
import proxies
from pickers import PICKERS, Picker
from pickers.asking_envoy import FULL_DUPLEX, Listening, configuration
from proxies.envoy import Envoy
from proxies.processes import UnavailableError
from scenarios import CONNECTIONS

RESULTS = Path(__file__).with_name("results") / "picker.jsonl"
SIZES = {"request": 600, "request-8k": 8000}
"""Bytes of a prompt, by the name of the column."""
NONE = "none"
"""Envoy alone, which balances by itself."""
GOAL_US = 300.0
"""Of our picker, for a request of 8 KB with prefix scoring."""
REST_S = 3.0

progress = Console(stderr=True)


@dataclass
class Cell:
    """One picker with requests of one size: a value for each repetition, or why there is none."""

    picker: str
    size: str
    unavailable: str = ""
    picker_us: list[float] = field(default_factory=list)
    envoy_us: list[float] = field(default_factory=list)
    rest_percent: list[float] = field(default_factory=list)
    per_second: list[float] = field(default_factory=list)
    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    memory_mb: float = 0.0
    failures: list[str] = field(default_factory=list)


class Asking(Envoy):
    """Envoy that asks a picker."""

    def asking(self, picker: int | None, engines: Sequence[tuple[str, int]]) -> tuple[int, int]:
        """Start it; return its port and pid."""
        self.fresh_scratch()
        port = ports.held_port()
        file = self.scratch / "envoy.json"
        listening = Listening(port, None if picker is None else FULL_DUPLEX)
        asked = [] if picker is None else [("127.0.0.1", picker)]
        made = configuration([listening], asked, list(engines), self.scratch / "access.log")
        file.write_text(json.dumps(made, indent=1))
        pid = self.spawn(
            "envoy",
            *(self._environment / "bin" / "envoy", "--config-path", file, "--concurrency", "1"),
            *("--use-dynamic-base-id", "--log-level", "warning"),
        )
        self.answers(port)
        return port, pid


def measure(
    cell: Cell, picker: Picker | None, envoy: Asking, engines: Sequence[tuple[str, int]], seconds: float
):
    """Add one repetition, with new processes."""
    try:
        asked, pid = picker.pick(engines) if picker is not None else (None, None)
        port, envoy_pid = envoy.asking(asked, engines)
        if pid is not None:
            before, began = cpu.cpu_seconds(pid), time.monotonic()
            time.sleep(REST_S)
            cell.rest_percent.append((cpu.cpu_seconds(pid) - before) / (time.monotonic() - began) * 100)
        bodies = load.chat_bodies(SIZES[cell.size])

        def run(seconds: float) -> load.Window:
            return load.requests(
                f"127.0.0.1:{port}",
                bodies,
                seconds,
                CONNECTIONS,
                lambda: cpu.cpu_seconds(envoy_pid),
                proxies.CACHE / "run",
            )

        run(2.0)
        before = cpu.cpu_seconds(pid) if pid is not None else 0.0
        window = run(seconds)
        if not window.work:
            raise RuntimeError(f"no request was completed: {', '.join(window.failures[:3])}")
        if pid is not None:
            cell.picker_us.append((cpu.cpu_seconds(pid) - before) / window.work * 1e6)
            cell.memory_mb = max(cell.memory_mb, cpu.peak_memory_mb(pid))
        cell.envoy_us.append(window.cpu_us)
        cell.per_second.append(window.work / window.seconds)
        cell.p50_ms.append(window.p50_ms)
        cell.p99_ms.append(window.p99_ms)
        cell.failures += window.failures
    except (UnavailableError, RuntimeError, OSError, httpx2.HTTPError) as error:
        cell.unavailable = str(error) or type(error).__name__
    finally:
        envoy.stop()
        if picker is not None:
            picker.stop()


def compare(chosen: Sequence[str], seconds: float, repeat: int) -> dict[str, Any]:
    """Measure every cell; return the run in the format of the results file."""
    (proxies.CACHE / "run").mkdir(parents=True, exist_ok=True)
    envoy = Asking()
    versions = {"envoy": envoy.install()}
    candidates: dict[str, Picker | None] = {
        name: None if name == NONE else PICKERS[name]() for name in chosen
    }
    cells = {(name, size): Cell(name, size) for name in chosen for size in SIZES}
    for name, picker in candidates.items():
        try:
            versions[name] = picker.install() if picker is not None else ""
        except UnavailableError as error:
            for size in SIZES:
                cells[name, size].unavailable = str(error)
    with gateway.engines() as (_, port):
        engines = [(host, port) for host in gateway.ENGINES]
        for repetition in range(repeat):
            for (name, size), cell in cells.items():
                if not cell.unavailable:
                    progress.print(f"[dim]{repetition + 1}/{repeat} {size}: {name}")
                    measure(cell, candidates[name], envoy, engines, seconds)
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": gateway.commit(),
        "machine": cpu.machine(),
        "settings": {"seconds": seconds, "repeat": repeat, "connections": CONNECTIONS},
        "versions": versions,
        "cells": [asdict(cell) for cell in cells.values()],
    }


def table(run: dict[str, Any]) -> Table:
    """One row for each picker, with medians."""
    grid = Table(title="CPU time for each request: picker + Envoy", title_justify="left")
    grid.add_column("picker")
    for name, size in SIZES.items():
        grid.add_column(f"{name}: prompt of {size / 1000:g} KB")
    grid.add_column("at rest")
    rows: dict[str, list[dict[str, Any]]] = {}
    for cell in run["cells"]:
        rows.setdefault(cell["picker"], []).append(cell)
    for name, found in rows.items():
        rest = [value for cell in found for value in cell["rest_percent"]]
        memory = max(cell["memory_mb"] for cell in found)
        shown = f"{statistics.median(rest):.1f} % of a core\n[dim]{memory:.0f} MB" if rest else ""
        version = run["versions"].get(name) or ""
        grid.add_row(f"{name}\n[dim]{version}", *map(_shown, found), shown)
    return grid


def _shown(cell: dict[str, Any]) -> str:
    if not cell["envoy_us"]:
        return f"[yellow]not available[/]\n[dim]{cell['unavailable'][:60]}"
    own = f"{statistics.median(cell['picker_us']):.0f}" if cell["picker_us"] else "-"
    lines = [f"[bold]{own} + {statistics.median(cell['envoy_us']):.0f} µs"]
    if cell["picker"] == "headgate" and cell["size"] == "request-8k":
        reached = statistics.median(cell["picker_us"]) <= GOAL_US
        lines[0] += f" [green]at most {GOAL_US:.0f}" if reached else f" [red]more than {GOAL_US:.0f}"
    lines.append(f"[dim]{statistics.median(cell['per_second']):,.0f}/s")
    lines.append(
        f"[dim]p50 {statistics.median(cell['p50_ms']):.1f} ms, p99 {statistics.median(cell['p99_ms']):.1f} ms"
    )
    lines += [f"[red]{failure}" for failure in cell["failures"][:2]]
    return "\n".join(lines)


NAMES = (NONE, *PICKERS)
_selection: Callable[..., list[str]] = gateway.selection(NAMES)


@click.command(help=__doc__)
@click.option("--seconds", type=click.FloatRange(1), default=6, show_default=True, help="Length of a window.")
@click.option(
    "--repeat", type=click.IntRange(1), default=1, show_default=True, help="Windows per cell (median)."
)
@click.option("--only", callback=_selection, default=",".join(NAMES), show_default=True, help="Pickers.")
@click.option("--record", is_flag=True, help="Add the run to the file of results.")
def main(seconds: float, repeat: int, only: list[str], record: bool) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwind, to stop every started process
    run = compare(only, seconds, repeat)
    if record:
        RESULTS.parent.mkdir(exist_ok=True)
        with RESULTS.open("a") as results:
            results.write(json.dumps(run) + "\n")
    console = Console()
    console.print(table(run))
    for name in only:
        if name != NONE:
            console.print(f"[dim]{name}: {PICKERS[name].note}", highlight=False)
    if any(cell["failures"] for cell in run["cells"]):
        raise click.ClickException("some work failed; the table says what")


if __name__ == "__main__":
    main()
