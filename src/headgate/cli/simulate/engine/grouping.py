"""Several options of a command as one decorator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import click

Command: TypeAlias = Callable[..., Any]

SECONDS = click.FloatRange(min=0)
RATE = click.FloatRange(min=0, min_open=True)
COUNT = click.IntRange(min=1)


def options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """All of them, in the order in which help shows them."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def seconds(context: click.Context, parameter: click.Parameter, text: str | float | None) -> float | None:
    """Of 200, 200ms or 0.2s: a number alone is milliseconds."""
    from headgate.kubeschema import duration

    if text is None:
        return None
    text = str(text)
    try:
        seconds = float(text) / 1000 if text.replace(".", "", 1).isdigit() else duration.parse(text)
    except duration.DurationError:
        seconds = -1.0
    if seconds < 0:
        raise click.BadParameter(f"{text!r} is not a time such as 200ms or 1.5s", context, parameter)
    return seconds


def lasting(context: click.Context, parameter: click.Parameter, text: str | float) -> float:
    """Of 30s, 2m or 1.5: a number alone is seconds."""
    given = str(text)
    told = seconds(context, parameter, f"{given}s" if given.replace(".", "", 1).isdigit() else given)
    return told or 0.0
