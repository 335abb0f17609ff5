"""Arguments that get, describe and delete share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def _words(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from headgate.cli.objects.completing import complete_words

    return complete_words(context, parameter, incomplete)


def _namespaces(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from headgate.cli.objects.completing import complete_namespace

    return complete_namespace(context, parameter, incomplete)


def _need_a_kind(context: click.Context, _: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    if not words:
        command = context.command_path
        raise click.UsageError(f"which kind? Say `{command} modelroutes`, for one, or `{command} all`.")
    return words


def words(*, required: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.argument(
        "words",
        nargs=-1,
        metavar="KIND [NAME]... | KIND/NAME...",
        callback=_need_a_kind if required else None,
        shell_complete=_words,
    )


KIND_AND_NAMES = words(required=True)

namespace_option = click.option(
    "-n", "--namespace", help="Namespace. Default: that of the kubeconfig.", shell_complete=_namespaces
)


def selectors(command: Callable[..., Any]) -> Callable[..., Any]:
    """By labels and by fields."""
    labels = click.option("-l", "--selector", help="Labels to select by, such as app=chat,tier!=test.")
    fields = click.option("--field-selector", help="Fields to select by, such as status.phase=Running.")
    return labels(fields(command))
