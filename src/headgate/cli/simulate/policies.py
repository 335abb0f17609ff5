"""The policies that a replay compares, from names and configuration files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click
import msgspec

from headgate.cli.simulate.strict import Document
from headgate.cli.validation.spelling import closest
from headgate.scheduling import Policy, configuration
from headgate.scheduling.plugins import PrefixIndex

DEFAULT = configuration.NAMES[0]


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One policy, created anew for each run."""

    name: str
    """The policy's name, or the file's."""
    make: Callable[[PrefixIndex], Policy]


def by_names(text: str) -> list[Compared]:
    """Policies from comma-separated names; raises click.UsageError for an unknown name."""
    names = dict.fromkeys(name.strip() for name in text.split(","))
    for name in names:
        if name not in configuration.NAMES:
            near = closest(name, configuration.NAMES)
            fix = f"did you mean {near}?" if near else f"there are {', '.join(configuration.NAMES)}"
            raise click.UsageError(
                f"unknown policy {name!r}; {fix} (use --policy-config for a configuration file)"
            )
    return [Compared(name=name, make=partial(configuration.named, name)) for name in names]


def by_files(files: Sequence[str]) -> tuple[list[Compared], list[str]]:
    """The policies of configuration files, and notes on settings without effect; raises SettingErrors.

    Experimental plugins are allowed: simulations exist to try them.
    """
    found: list[Compared] = []
    notes: list[str] = []
    for file in dict.fromkeys(files):
        document = Document(file)
        content = document.plain()
        if isinstance(content, dict) and "kind" not in content:
            content = configuration.without_auth(content)  # a simulation authenticates nobody
        read = configuration.read(content, allow_alpha=True)
        for problem in read.problems:
            if problem.severity == "error":
                document.report(problem.path, problem.message, problem.suggestion)
            elif problem.severity == "warning":
                fix = f"; {problem.suggestion}" if problem.suggestion else ""
                notes.append(f"{file}: {problem.path}: {problem.message}{fix}")
        if read.plan is None:
            raise document.errors()
        found.append(Compared(name=_label(file, files), make=read.plan.policy))
    return found, notes


def _label(file: str, files: Sequence[str]) -> str:
    """The file's stem, or its full name if another file has the same stem."""
    stem = Path(file).stem
    return stem if sum(Path(each).stem == stem for each in set(files)) == 1 else file
