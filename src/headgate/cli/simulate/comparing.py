"""`headgate simulate trace`: plan, run, and show the results."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from headgate.cli.simulate import plots, replaying, results, table
from headgate.cli.simulate.plan import Options, plan
from headgate.cli.simulate.replaying import Watch
from headgate.cli.simulate.results import Drawn, Results
from headgate.simulator.fleet import Slo

_INTERRUPTED = 130


def run(options: Options) -> None:
    """Run the command; raises click's exceptions for invalid options or files."""
    planned = plan(options)
    if options.plots is not None:
        with _told_of(options.plots):
            plots.prepare(options.plots)
    contest = replaying.Contest(
        requests=planned.traffic.requests,
        fleet=planned.fleet,
        policies=planned.policies,
        arrivals=planned.arrivals,
        slo=planned.slo,
        seed=options.seed,
    )
    with Watch(Console(stderr=True)) as watch:
        if options.find_rate:
            drawn = replaying.find_rates(contest, options.attain, watch)
        else:
            drawn = replaying.compare(contest, watch)
    _show(options, results.results(planned, drawn), drawn)
    if options.plots is not None and drawn:
        _draw(options.plots, drawn, planned.slo)
    if watch.is_interrupted:
        sys.exit(_INTERRUPTED)


def _show(options: Options, results: Results, drawn: Sequence[Drawn]) -> None:
    if options.output == "json":
        click.echo(results.json())
        return
    click.echo(_heading(results))
    if drawn:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        wide = options.output == "wide"
        click.echo()
        click.echo("\n".join(table.lines(results.runs, wide=wide, width=width)))
        if by_tenant := table.tenants(results.runs, wide=wide, width=width):
            click.echo()
            click.echo("\n".join(by_tenant))
    if options.compare and len(drawn) > 1:
        click.echo()
        click.echo("\n".join(table.comparison(results.runs)))
    if results.notes:
        click.echo()
        click.echo("\n".join(f"note: {note}" for note in results.notes))


def _heading(results: Results) -> str:
    configuration = results.configuration
    used = configuration.trace
    told = f"{used.source} ({used.format}): {_count(used.requests, 'request')}"
    if 0 < used.sessions < used.requests:
        told += f" of {_count(used.sessions, 'conversation')}"
    if used.first_to_last_s:
        told += f" in {used.first_to_last_s:,.0f} s, {used.rate_per_s:.2f} a second"
    if used.ideal_hit_rate is not None:
        told += f", {100 * used.ideal_hit_rate:.1f}% of prompt tokens seen before"
    slo = configuration.slo
    tpot = f", tokens after it {1000 * slo['tpot_s']:g} ms" if slo["tpot_s"] is not None else ""
    groups = ", ".join(map(_group, configuration.fleet["groups"]))
    objective = f"first token within {slo['ttft_s']:g} s{tpot}"
    return f"{told}\n{groups}; objective: {objective}; seed {configuration.seed}"


def _draw(directory: Path, drawn: Sequence[Drawn], slo: Slo) -> None:
    with _told_of(directory):
        written = plots.write(directory, drawn, slo)
    click.echo(f"{len(written)} plots in {directory}", err=True)


def _group(group: dict[str, Any]) -> str:
    apart = "" if group["role"] == "both" else f" ({group['role']})"
    return f"{group['replicas']} x {group['profile']}{apart}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@contextmanager
def _told_of(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise click.ClickException(f"cannot write plots to {directory}: {error.strerror or error}") from error
