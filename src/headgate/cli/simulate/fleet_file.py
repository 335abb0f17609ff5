"""The fleet of a replay: from a file, or from flags for equal replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from headgate.cli.manifests import scalars
from headgate.cli.simulate.fleet_sections import FleetFile, GroupSection, Problem, Settled, settle
from headgate.cli.simulate.strict import Document
from headgate.cli.validation.spelling import closest
from headgate.traffic.traces import TimedRequest


def from_file(file: str, requests: Sequence[TimedRequest]) -> tuple[FleetFile, Settled]:
    """Read a fleet file; raises SettingErrors with all of its errors."""
    document = Document(file)
    read = document.read(FleetFile)
    settled = settle(read, requests)
    for problem in settled.problems:
        document.report(problem.path, problem.message, _fix(problem))
    if settled.problems:
        raise document.errors()
    return read, settled


def from_flags(
    replicas: int, profile: str, engine: Mapping[str, float | bool], requests: Sequence[TimedRequest]
) -> tuple[FleetFile, Settled]:
    """A fleet from flags; raises click.UsageError with all errors."""
    file = FleetFile(groups=[GroupSection(replicas=replicas, profile=profile, engine=dict(engine))])
    settled = settle(file, requests)
    if settled.problems:
        raise click.UsageError("\n".join(_told(problem) for problem in settled.problems))
    return file, settled


def parse_constants(given: Sequence[str]) -> dict[str, float | bool]:
    """Parse the NAME=VALUE of --engine; raises click.UsageError with all errors."""
    found: dict[str, float | bool] = {}
    wrong = []
    for text in given:
        name, _, value = text.partition("=")
        number = _number(value.strip())
        if number is None:
            wrong.append(f"--engine: {text!r} is not NAME=NUMBER, such as kv_blocks=600")
        else:
            found[name.strip().replace("-", "_")] = number
    if wrong:
        raise click.UsageError("\n".join(wrong))
    return found


def _number(text: str) -> float | bool | None:
    """Parse a number or boolean as in a file; None for anything else."""
    try:
        value = scalars.resolve(text)
    except scalars.NotJson:
        return None
    return value if isinstance(value, int | float) else None


def _told(problem: Problem) -> str:
    flag, _, name = problem.path.removeprefix("groups[0].").partition(".")
    flag = "replicas" if flag == "groups" else flag
    fix = _fix(problem)
    return f"--{flag}{' ' if name else ''}{name}: {problem.message}{f'; {fix}' if fix else ''}"


def _fix(problem: Problem) -> str:
    if not problem.choices:
        return ""
    near = closest(problem.word, problem.choices)
    return f"did you mean {near}?" if near else f"there are {', '.join(problem.choices)}"
