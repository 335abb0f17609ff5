"""A run as a table for reading: scenarios down, proxies across, CPU time first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import proxies

OURS = proxies.Headgate.name


@dataclass(frozen=True)
class Row:
    """What the table says of a scenario."""

    name: str
    title: str
    unit: str
    budget_us: float


def show(run: dict[str, Any], chosen: Sequence[str], scenarios: Sequence[Row], console: Console) -> None:
    console.print(table(run, chosen, scenarios))
    for note in notes(run, chosen):
        console.print(f"[dim]{escape(note)}", highlight=False)


def table(run: dict[str, Any], chosen: Sequence[str], scenarios: Sequence[Row]) -> Table:
    """The run for reading: scenarios down, proxies across, CPU time first."""
    grid = Table(title="CPU time of the proxy over completed work", show_lines=True, title_justify="left")
    grid.add_column("")
    for name in chosen:
        grid.add_column(f"{name}\n[dim]{run['versions'].get(name, '')}")
    cells = {(cell["proxy"], cell["scenario"]): cell for cell in run["cells"]}
    for scenario in scenarios:
        ours = cells.get((OURS, scenario.name), {}).get("cpu_us")
        texts = [shown(cells[name, scenario.name], scenario, ours) for name in chosen]
        timing = "latency" if scenario.unit == "request" else "gap between chunks"
        grid.add_row(
            f"{scenario.title}\n[dim]headgate's budget {scenario.budget_us:g} µs\n[dim]p50, p99: {timing}",
            *texts,
        )
    return grid


def shown(cell: dict[str, Any], row: Row, ours: float | None) -> str:
    if "unavailable" in cell:
        return "[yellow]not available"
    lines = [f"[bold]{cell['cpu_us']:.1f} µs[/]"]
    if cell["proxy"] == OURS:
        lines[0] += " [green]within" if cell["cpu_us"] <= row.budget_us else " [red]over budget"
    elif ours:
        lines[0] += f", {cell['cpu_us'] / ours:.1f} x ours"
    if len(cell["work"]) > 1:
        lines.append(f"{cell['cpu_us_min']:.1f} to {cell['cpu_us_max']:.1f}")
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
