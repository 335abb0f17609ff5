"""The traffic of a replay: requests of a trace file, or of a generated workload."""

from __future__ import annotations

import random
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, get_type_hints

import click
import msgspec

from headgate.cli.simulate.strict import bare, wanted
from headgate.cli.validation.spelling import closest
from headgate.kubeschema import duration
from headgate.traffic import traces, workloads
from headgate.traffic.traces import MAX_LINE_BYTES, TimedRequest

_NAMES_WIDTH = 30
_WIDEST = 110


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """Requests at the times of their trace."""

    requests: list[TimedRequest]
    source: str
    format: str
    parameters: dict[str, Any]
    grid_s: float
    """Grid that the times were rounded to; 0 if they were not."""


def of_file(file: str, format: str, block_tokens: int, arrivals: traces.Arrivals) -> Traffic:
    """The selected requests of a trace file; raises click.ClickException."""
    with _told(file), _opened(file) as stream:
        lines = iter(lambda: stream.readline(MAX_LINE_BYTES + 1), b"")
        first = next(lines, b"")
        name = traces.detect(first) if format == "auto" else format
        if name is None:
            raise click.UsageError(
                f"{file}: the format of its first line is not recognized; set it with --format"
            )
        reader = traces.Mooncake(block_tokens) if name == "mooncake" else traces.FORMATS[name].reader()
        every = traces.requests(_label(file), _with(first, lines), reader)
        chosen = traces.arrange(every, arrivals, random.Random(0))  # noqa: S311 - nothing is drawn
    if not chosen:
        raise click.UsageError(f"{file}: no request arrives within --duration")
    chosen = list(traces.with_sessions(chosen).requests)
    return Traffic(
        requests=chosen, source=_label(file), format=name, parameters={}, grid_s=traces.grid_s(chosen)
    )


def of_workload(name: str, given: Mapping[str, str], arrivals: traces.Arrivals, seed: int) -> Traffic:
    """Generated requests; raises click.UsageError with all errors in the parameters."""
    if name not in workloads.WORKLOADS:
        near = closest(name, workloads.WORKLOADS)
        fix = f"did you mean {near}?" if near else f"there are {', '.join(workloads.WORKLOADS)}"
        raise click.UsageError(f"--workload: unknown workload {name!r}; {fix}")
    kind = workloads.WORKLOADS[name]
    values = dict(given)
    if arrivals.limit is not None:
        values.setdefault("requests", str(arrivals.limit))
    workload = kind(**_converted(kind, values))
    requests = workload.generate(random.Random(f"{seed}/{name}"))  # noqa: S311 - it must be the same again
    chosen = traces.arrange(requests, arrivals, random.Random(0))  # noqa: S311 - nothing is drawn
    return Traffic(
        requests=chosen,
        source=name,
        format="workload",
        parameters=msgspec.structs.asdict(workload),
        grid_s=0.0,
    )


def along(used: Traffic, file: str) -> Traffic:
    """The same requests, following a rate curve; raises click.ClickException."""
    with _told(file), _opened(file) as stream:
        curve = traces.read_curve(_label(file), iter(lambda: stream.readline(MAX_LINE_BYTES + 1), b""))
    return msgspec.structs.replace(used, requests=traces.follow(used.requests, curve))


def parameters(given: Sequence[str]) -> dict[str, str]:
    """The values of --set by name; raises click.UsageError."""
    pairs = [text.partition("=") for text in given]
    if wrong := [name for name, sign, _ in pairs if not sign]:
        raise click.UsageError(f"--set {wrong[0]}: write NAME=NUMBER")
    return {name.strip().replace("-", "_"): value.strip() for name, _, value in pairs}


def jitter_s(text: str, grid_s: float) -> float:
    """The seconds of --jitter for a trace whose times have this grid; raises click.UsageError."""
    if text == "auto":
        return grid_s
    if text == "off":
        return 0.0
    try:
        found_s = duration.parse(text)
    except duration.DurationError:
        found_s = -1.0
    if found_s < 0:
        raise click.UsageError(f"--jitter: {text!r} is not auto, off, or a time such as 3s")
    return found_s


def described() -> str:
    """All workloads with their parameters, as text."""
    told = []
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    for workload, kind in workloads.WORKLOADS.items():
        about = (kind.__doc__ or "").strip()
        told.append(textwrap.fill(f"{workload}: {about}", width))
        hints = get_type_hints(kind, include_extras=True)
        for field in msgspec.structs.fields(kind):
            description = hints[field.name].__metadata__[0].description
            name = f"    {field.name}={field.default:g}".ljust(_NAMES_WIDTH)
            told.append(textwrap.fill(name + description, width, subsequent_indent=" " * _NAMES_WIDTH))
    return "\n".join(told)


def _converted(kind: type[workloads.Workload], given: Mapping[str, str]) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    values: dict[str, Any] = {}
    wrong = []
    for name, text in given.items():
        if name not in hints:
            near = closest(name, hints)
            fix = f"did you mean {near}?" if near else f"there are {', '.join(hints)}"
            wrong.append(f"--set {name}: unknown parameter; {fix}")
            continue
        try:
            values[name] = msgspec.convert(text, hints[name], strict=False)
        except msgspec.ValidationError:
            wrong.append(f"--set {name}: {text!r} is not {wanted(*bare(hints[name]))}")
    if wrong:
        raise click.UsageError("\n".join(wrong))
    return values


@contextmanager
def _told(file: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror or error}") from error
    except traces.TraceError as error:
        raise click.ClickException(f"{_label(file)} cannot be read\n{error}") from error


@contextmanager
def _opened(file: str) -> Iterator[IO[bytes]]:
    if file == "-":
        yield sys.stdin.buffer
        return
    with Path(file).open("rb") as stream:
        yield stream


def _with(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _label(file: str) -> str:
    return "<stdin>" if file == "-" else file
