"""Shows a run as a table: one row per scenario and one column per proxy, with CPU time or memory first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import proxies

OURS = proxies.Headgate.name
YARDSTICK = proxies.Nginx.name

Cells = dict[tuple[str, str], dict[str, Any]]
"""Cells by proxy and scenario."""


class Goal(Protocol):
    """The goal of a row for Headgate."""

    def __str__(self) -> str: ...

    def reached(self, cell: dict[str, Any], yardstick: dict[str, Any]) -> bool | None:
        """Whether Headgate's cell reaches it, given nginx's cell of the same run; None if unknown."""


@dataclass(frozen=True)
class CpuBudget:
    """A number of µs of CPU time per unit of work."""

    us: float

    def __str__(self) -> str:
        return f"at most {self.us:g} µs"

    def reached(self, cell: dict[str, Any], yardstick: dict[str, Any]) -> bool | None:
        return bool(cell["cpu_us"] <= self.us)


@dataclass(frozen=True)
class AddedLatency:
    """The 99th percentile, at most this many ms above nginx's."""

    ms: float

    def __str__(self) -> str:
        return f"p99 at most {self.ms:g} ms over nginx's"

    def reached(self, cell: dict[str, Any], yardstick: dict[str, Any]) -> bool | None:
        p99 = yardstick.get("p99_ms")
        return None if p99 is None else bool(cell["p99_ms"] <= p99 + self.ms)


@dataclass(frozen=True)
class MemoryBudget:
    """A number of KB of memory per unit."""

    kb: float

    def __str__(self) -> str:
        return f"at most {self.kb:g} KB each"

    def reached(self, cell: dict[str, Any], yardstick: dict[str, Any]) -> bool | None:
        return bool(cell["kb_each"] <= self.kb)


@dataclass(frozen=True)
class Row:
    """The text of a scenario in the table."""

    name: str
    title: str
    unit: str
    times: str
    """What its percentiles refer to."""
    goal: Goal


def show(run: dict[str, Any], chosen: Sequence[str], scenarios: Sequence[Row], console: Console) -> None:
    console.print(table(run, chosen, scenarios))
    for note in notes(run, chosen):
        console.print(f"[dim]{escape(note)}", highlight=False)


def table(run: dict[str, Any], chosen: Sequence[str], scenarios: Sequence[Row]) -> Table:
    grid = Table(title="Cost of the proxy for each unit of work", show_lines=True, title_justify="left")
    grid.add_column("")
    for name in chosen:
        grid.add_column(f"{name}\n[dim]{run['versions'].get(name, '')}")
    cells: Cells = {(cell["proxy"], cell["scenario"]): cell for cell in run["cells"]}
    for row in scenarios:
        texts = [shown(cells, name, row) for name in chosen]
        grid.add_row(f"{row.title}\n[dim]headgate's goal: {row.goal}\n[dim]p50, p99: {row.times}", *texts)
    return grid


def shown(cells: Cells, name: str, row: Row) -> str:
    cell = cells[name, row.name]
    if "unavailable" in cell:
        return "[yellow]not available"
    cpu = f"{cell['cpu_us']:.1f} µs"
    result, lines = "cpu_us", [f"[bold]{cpu}[/]"]
    if cell["kb_each"] is not None:
        result, lines = "kb_each", [f"[bold]{cell['kb_each']:.1f} KB[/]", f"for each of {cell['work'][-1]:,}"]
        lines.append(cpu)
    if cell["proxy"] == OURS:
        reached = row.goal.reached(cell, cells.get((YARDSTICK, row.name), {}))
        if reached is not None:
            lines[0] += " [green]goal reached" if reached else " [red]goal missed"
    elif ours := cells.get((OURS, row.name), {}).get(result):
        lines[0] += f", {cell[result] / ours:.1f} x ours"
    if len(cell["work"]) > 1:
        lines.append(f"{cell['cpu_us_min']:.1f} to {cell['cpu_us_max']:.1f} µs")
    lines.append(f"[dim]{cell['per_second']:,}/s")
    lines.append(f"[dim]p50 {cell['p50_ms']:.2f} ms")
    lines.append(f"[dim]p99 {cell['p99_ms']:.2f} ms")
    lines.append(f"[dim]{cell['memory_mb']} MB")
    lines += [f"[red]{escape(failure)}" for failure in cell["failures"][:3]]
    return "\n".join(lines)


def notes(run: dict[str, Any], chosen: Sequence[str]) -> Iterator[str]:
    machine, settings, direct = run["machine"], run["settings"], run["upstream_alone"]
    yield f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}, Python {machine['python']}"
    yield (
        f"requests: wrk, {settings['connections']} connections, {settings['seconds']:g} s; streams: "
        f"{settings['streams']} open, {settings['stream_chunks']} chunks each, every byte checked; "
        f"engines alone: {direct['requests_per_second']:,} requests/s at {direct['cpu_us']:.1f} µs"
    )
    for name in chosen:
        yield f"{name}: {proxies.PROXIES[name].note}"
    reasons = {(cell["proxy"], cell["unavailable"]) for cell in run["cells"] if "unavailable" in cell}
    yield from (f"{name} not available: {reason}" for name, reason in sorted(reasons))
