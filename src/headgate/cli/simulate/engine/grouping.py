"""Several options of a command as one decorator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import click

Command: TypeAlias = Callable[..., Any]

SECONDS = click.FloatRange(min=0)
COUNT = click.IntRange(min=1)


def options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """All of them, in the order in which help shows them."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add
