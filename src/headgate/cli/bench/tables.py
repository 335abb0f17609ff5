"""The results of load tests as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headgate.cli.objects import printing
from headgate.loadtest import Difference, Measured, Results
from headgate.loadtest.results import Times

NAMES = ("first", "second")
"""Of two runs that are compared."""
_NONE = "-"
_MAX_ENDPOINTS = 20
_MAX_ERRORS = 10
_WIDTH = 100
"""Without a terminal."""


def show(runs: Sequence[Results], differences: Sequence[Difference], notes: Sequence[str]) -> None:
    """Print one run, or two with their differences."""
    console = Console(highlight=False, markup=False, soft_wrap=False)
    if not console.is_terminal:
        console.width = _WIDTH
    for each in runs:
        _print_run(console, each)
    if differences:
        for name, run in zip(NAMES, runs, strict=True):
            console.print(
                f"{name}: {printing.escaped(run.url)}, begun at {run.began_at}", style="bold", soft_wrap=True
            )
        _print(console, _comparison(runs, differences))
        console.print(
            "Changes are from the first to the second. * marks those that chance hardly explains: their "
            "interval does not contain 0.",
            style="dim",
            soft_wrap=True,
        )
    for note in notes:
        console.print(f"note: {note}", soft_wrap=True)


def unequal(runs: Sequence[Measured]) -> list[str]:
    """How the plans of two runs differ."""
    if len(runs) < 2:
        return []
    first, second = (each.configuration for each in runs)
    ignored = {"salt", "workers"}
    names = [name for name in first if name not in ignored and first[name] != second.get(name)]
    return [f"the runs differ in {name}: {first[name]} and {second.get(name)}" for name in names]


def _print_run(console: Console, run: Results) -> None:
    ended = " (interrupted)" if run.interrupted else ""
    console.print(
        f"{printing.escaped(run.url)}, model {printing.escaped(run.model)}: {run.duration_s:.1f} s{ended}",
        style="bold",
        soft_wrap=True,
    )
    _print(console, _times(run))
    _print(console, _counts(run))
    if run.endpoints:
        _print(console, _endpoints(run))
    for kind, count in list(run.errors.items())[:_MAX_ERRORS]:
        example = printing.escaped(run.examples.get(kind, ""))
        console.print(f"error: {count} x {printing.escaped(kind)}: {example}", soft_wrap=True)
    for note in run.notes:
        console.print(f"note: {printing.escaped(note)}", soft_wrap=True)
    console.print()


def _print(console: Console, table: Table) -> None:
    """Without the blanks at the ends of lines that tables have."""
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        if line.strip():
            click.echo(line.rstrip())


def _table(*columns: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="")
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place == 0 else "right", no_wrap=True)
    return table


def _times(run: Results) -> Table:
    table = _table("times", "mean", "p50", "p90", "p95", "p99", "max", "count")
    rows = [
        ("TTFT", run.ttft_s),
        ("TPOT", run.tpot_s),
        ("ITL", run.itl_s),
        ("latency", run.latency_s),
    ]
    for name, found in rows:
        if found.count:
            table.add_row(name, *map(_seconds, _values(found)), f"{found.count:,}")
    return table


def _values(found: Times) -> list[float | None]:
    return [found.mean, found.p50, found.p90, found.p95, found.p99, found.max]


def _counts(run: Results) -> Table:
    table = _table("requests", "", "tokens", "in", "out")
    left = [
        ("succeeded", f"{run.succeeded:,}"),
        ("failed", f"{run.failed:,}"),
        *([("dropped", f"{run.dropped:,}")] if run.dropped else []),
        *([("unfinished", f"{run.unfinished:,}")] if run.unfinished else []),
        ("per second", f"{run.requests_per_s:.2f}"),
    ]
    if run.slo_share is not None and run.goodput_per_s is not None:
        left += [("in SLO", f"{100 * run.slo_share:.1f}%"), ("goodput/s", f"{run.goodput_per_s:.2f}")]
    right = [
        ("total", f"{run.prompt_tokens:,}", f"{run.output_tokens:,}"),
        ("per second", f"{run.prompt_tokens_per_s:,.1f}", f"{run.output_tokens_per_s:,.1f}"),
        ("planned", f"{run.planned_prompt_tokens:,}", f"{run.planned_output_tokens:,}"),
        ("cached", f"{100 * run.cached_share:.1f}%", ""),
    ]
    for place in range(max(len(left), len(right))):
        table.add_row(
            *(left[place] if place < len(left) else ("", "")),
            *(right[place] if place < len(right) else ("", "", "")),
        )
    return table


def _endpoints(run: Results) -> Table:
    table = _table("endpoint", "requests", "failed", "cached", "TTFT p50", "TTFT p99")
    for each in sorted(run.endpoints, key=lambda found: -found.requests)[:_MAX_ENDPOINTS]:
        table.add_row(
            Text(printing.escaped(each.name)),
            f"{each.requests:,}",
            f"{each.failed:,}",
            _share(each.cached_share),
            _seconds(each.ttft_s.p50),
            _seconds(each.ttft_s.p99),
        )
    if (more := len(run.endpoints) - _MAX_ENDPOINTS) > 0:
        table.add_row(f"and {more} more")
    return table


def _comparison(runs: Sequence[Results], differences: Sequence[Difference]) -> Table:
    table = _table("", *NAMES, "change", "95 % interval", "")
    for each in differences:
        if each.unit == "share" and not each.first and not each.second:
            continue
        told = _share if each.unit == "share" else _seconds
        mark = "" if each.is_better is None else "* better" if each.is_better else "* worse"
        table.add_row(
            each.name,
            told(each.first),
            told(each.second),
            _change(each.change, each.unit),
            _interval(each),
            mark,
        )
    rates: list[tuple[str, Callable[[Results], float]]] = [
        ("requests/s", lambda run: run.requests_per_s),
        ("output tokens/s", lambda run: run.output_tokens_per_s),
    ]
    for name, read in rates:
        first, second = map(read, runs)
        change = second / first - 1 if first else None
        table.add_row(name, f"{first:.2f}", f"{second:.2f}", _change(change, "per_s"), "", "")
    return table


def _interval(each: Difference) -> str:
    if each.low is None or each.high is None:
        return _NONE
    return f"{_change(each.low, each.unit)} to {_change(each.high, each.unit)}"


def _change(value: float | None, unit: str) -> str:
    if value is None:
        return _NONE
    return f"{100 * value + 0.0:+.1f}{' points' if unit == 'share' else '%'}"


def _share(value: float | None) -> str:
    return _NONE if value is None else f"{100 * value:.1f}%"


def _seconds(value: float | None) -> str:
    """Milliseconds below 10 s, with three digits or more."""
    if value is None:
        return _NONE
    if value >= 10:
        return f"{value:.1f} s"
    return f"{1000 * value:.{0 if value >= 0.1 else 1}f} ms"
