"""Run a load test, or two of them in turns, and show the results."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
import msgspec
import uvloop

from headgate import garbage, loadtest
from headgate.cli import process
from headgate.cli.bench import planning, plots, tables
from headgate.cli.bench.planning import Options, Planned
from headgate.cli.bench.watching import Watch
from headgate.cli.objects import printing
from headgate.loadtest import Form, HttpError, Measured, Tally, Target

T = TypeVar("T")

MISSED = 3
"""Exit code if fewer requests than required met the objectives."""


def run(options: Options) -> None:
    """Run the command; raises click's exceptions for invalid options or files, and exits for the others."""
    names = [options.target, *([options.compare] if options.compare else [])]
    if options.png is not None:
        plots.prepare()
    planning.slo(options)
    planning.more_fields(options)
    subjects = [_subject(options, name) for name in names]
    targets = [each for each in subjects if isinstance(each, Target)]
    if options.rounds > 1 and len(targets) < 2:
        raise click.UsageError("--rounds is for --compare URL; a saved run has been made already")
    found: list[Measured] = []
    if targets:
        planned = planning.planned(options)
        click.echo(f"{planned.heading}", err=True)
        found = _measured(options, planned, targets)
    fresh = iter(found)
    runs = [each if isinstance(each, Measured) else next(fresh, None) for each in subjects]
    measured = [each for each in runs if each is not None]
    _show(options, measured)
    if any(each.is_interrupted for each in found) or len(measured) < len(subjects):
        sys.exit(process.INTERRUPTED)
    _judge(options, measured[0])


def _subject(options: Options, name: str) -> Target | Measured:
    """A server, or a saved run; raises click's exceptions."""
    file = Path(name)
    if "://" not in name and file.suffix == ".json" and not file.exists():
        raise click.ClickException(f"{file}: there is no such file; a URL begins with http:// or https://")
    if "://" in name or not file.is_file():
        return planning.target(options, name)
    try:
        return loadtest.load(file)
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from error
    except ValueError as error:
        raise click.ClickException(f"{file} {error}") from error


def _measured(options: Options, planned: Planned, targets: Sequence[Target]) -> list[Measured]:
    try:
        return uvloop.run(_measure_all(options, planned, targets))
    except HttpError as error:
        raise click.ClickException(printing.escaped(str(error))) from error


class _Server(NamedTuple):
    """A server that has been probed."""

    target: Target
    form: Form
    salt: str
    notes: tuple[str, ...]


async def _measure_all(options: Options, planned: Planned, targets: Sequence[Target]) -> list[Measured]:
    """Every target in turn, as far as the user does not interrupt it. Raises HttpError."""
    stop = process.stop_on_signal()
    garbage.spare_what_there_is()
    servers = await _unless(stop, asyncio.ensure_future(_all_probed(options, planned, targets)))
    if servers is None:
        return []
    runs = [_empty(options, planned, server) for server in servers]
    rounds = _divided(planned.conversations, options.rounds)
    with Watch() as watch:
        for number, part in enumerate(rounds):
            order = range(len(servers)) if number % 2 == 0 else reversed(range(len(servers)))
            for at in order:
                if stop.is_set():
                    break
                await _measure(options, servers[at], part, runs[at], stop, watch)
    if stop.is_set():
        for each in runs:
            each.is_interrupted = True
    return [each for each in runs if each.duration_s]


async def _unless(stop: asyncio.Event, running: asyncio.Future[T]) -> T | None:
    """The result, or None if the event is set before."""
    stopping = asyncio.ensure_future(stop.wait())
    ends: list[asyncio.Future[Any]] = [running, stopping]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if running.done():
        return running.result()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return None


async def _all_probed(options: Options, planned: Planned, targets: Sequence[Target]) -> list[_Server]:
    return [await _probed(options, planned, target, at) for at, target in enumerate(targets)]


async def _probed(options: Options, planned: Planned, target: Target, place: int) -> _Server:
    server = target.server()
    salt = f"{planned.salt}-{place}" if place and planned.salt else planned.salt
    patience = loadtest.Patience(lambda told: click.echo(f"{target.url}: {told}", err=True))
    try:
        model = options.model or await loadtest.served_model(server, patience)
        form = Form(
            api="chat" if options.api == "chat" else "completions",
            model=model,
            is_streamed=options.stream,
            is_exact=options.ignore_eos,
            more=planning.more_fields(options),
        )
        probed = await loadtest.probe(server, form, salt, patience)
    except HttpError as error:
        raise HttpError(f"{target.url}: {error}", error.kind) from error
    return _Server(target, probed.form, salt, probed.notes)


def _empty(options: Options, planned: Planned, server: _Server) -> Measured:
    return Measured(
        headgate=metadata.version("headgate"),
        url=server.target.url,
        model=server.form.model,
        began_at=_now(),
        configuration=planned.configuration,
        is_streamed=options.stream,
        duration_s=0.0,
        planned=sum(map(len, planned.conversations)),
        tally=Tally(slo=planning.slo(options)),
        notes=[*planned.notes, *server.notes],
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _divided(
    conversations: Sequence[loadtest.Conversation], parts: int
) -> list[Sequence[loadtest.Conversation]]:
    size = -(-len(conversations) // parts)
    return [conversations[start : start + size] for start in range(0, len(conversations), size)]


async def _measure(
    options: Options,
    server: _Server,
    part: Sequence[loadtest.Conversation],
    run: Measured,
    stop: asyncio.Event,
    watch: Watch,
) -> None:
    """Run a part of the plan, and add it to what was measured before."""
    job = loadtest.Job(
        target=server.target,
        form=server.form,
        plan=part,
        salt=server.salt,
        slo=run.tally.slo,
        limits=planning.limits(options),
        timeout_s=options.timeout,
    )
    # Requests keep the times of the whole plan: this part begins with its first request.
    early_s = part[0][0].request.at_s
    if not run.duration_s:
        run.began_at = _now()
    watch.follow(run)
    if options.workers > 1:
        tally, burdens = await loadtest.measure_in_processes(job, options.workers, stop, watch.begin, early_s)
    else:
        tally, burdens = await loadtest.measure(job, stop, watch.begin, time.perf_counter() - early_s)
    run.duration_s += max(each.wall_s for each in burdens)
    run.tally.add(tally)
    run.burdens += burdens


def _show(options: Options, runs: Sequence[Measured]) -> None:
    if not runs:
        return
    results = [loadtest.results(each) for each in runs]
    differences = []
    if len(runs) > 1:
        has_slo = any(each.tally.slo.is_any for each in runs)
        differences = loadtest.compare(runs[0].tally.records, runs[1].tally.records, has_slo=has_slo)
    if options.output == "json":
        document = {"runs": results, "differences": differences}
        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    else:
        tables.show(results, differences, tables.unequal(runs))
    if options.save is not None:
        _written(options.save, lambda file: loadtest.save(runs[0], file))
    if options.png is not None:
        _written(options.png, lambda file: plots.draw(file, runs))


def _written(file: Path, write: object) -> None:
    assert callable(write)
    try:
        write(file)
    except OSError as error:
        raise click.ClickException(f"cannot write {file}: {error.strerror or error}") from error
    click.echo(f"wrote {file}", err=True)


def _judge(options: Options, run: Measured) -> None:
    """Exit with an error if no request succeeded, or too few did in time."""
    found = loadtest.results(run)
    if options.require is not None:
        has_slo = found.slo_share is not None
        counted = found.requests + found.dropped
        share = found.slo_share if has_slo else found.succeeded / max(counted, 1)
        assert share is not None
        if share < options.require:
            what = "met the objectives" if has_slo else "succeeded"
            click.echo(
                f"{100 * share:.2f}% of the requests {what}; --require {options.require:g} asks for more",
                err=True,
            )
            sys.exit(MISSED)
    if not found.succeeded:
        raise click.ClickException("no request succeeded")
