"""Flags as Go programs have them: one dash or two, `--flag=false`, durations, labels."""

from __future__ import annotations

import re
from collections.abc import Callable

import click

from headgate.cli.options import Command

_REMOVED = {
    **dict.fromkeys(
        (
            "--total-queued-requests-metric",
            "--total-running-requests-metric",
            "--kv-cache-usage-percentage-metric",
            "--lora-info-metric",
            "--cache-info-metric",
        ),
        "the metrics of each engine are known: set the annotation headgate.dev/engine of the pool instead",
    ),
    **dict.fromkeys(
        (
            "--model-server-metrics-port",
            "--model-server-metrics-path",
            "--model-server-metrics-scheme",
            "--model-server-metrics-https-insecure-skip-verify",
        ),
        "set --engine-metrics-port or --engine-metrics-path, or the annotations prometheus.io/port and "
        "prometheus.io/path of the Pods",
    ),
    "--ha-enable-leader-election": "all replicas serve: remove it",
}
"""Flags of earlier versions of the reference implementation, and what to do instead."""
_SINGLE_DASH = re.compile(r"-[A-Za-z][A-Za-z0-9-]+(=.*)?", re.DOTALL)
_LABEL = re.compile(r"[A-Za-z0-9./_-]{1,316}=[A-Za-z0-9._-]{0,63}")
_MAX_PORTS = 8


class GoCommand(click.Command):
    """Flags with one dash or two, as Go programs have them; flags that were removed are refused with a
    reason."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = [f"-{each}" if _SINGLE_DASH.fullmatch(each) else each for each in args]
        for each in args:
            name = each.partition("=")[0]
            plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
            if (why := _REMOVED.get(plain)) is not None:
                raise click.UsageError(f"{name} is not supported: {why}", ctx)
        return super().parse_args(ctx, args)


def switch(*names: str, default: bool, help: str) -> Callable[[Command], Command]:
    """A flag that may have a value, as in `--secure-serving=false`."""
    return click.option(
        *names, type=bool, is_flag=False, flag_value=True, default=default, metavar="[true|false]", help=help
    )


def selector(_: click.Context, __: click.Parameter, given: str) -> dict[str, str]:
    labels = [each.strip() for each in given.split(",") if each.strip()]
    for each in labels:
        if not _LABEL.fullmatch(each):
            raise click.BadParameter(f"{each[:64]!r}: labels such as app=vllm,tier=gpu are needed")
    return dict(each.split("=", 1) for each in labels)


def ports(_: click.Context, __: click.Parameter, given: str) -> tuple[int, ...]:
    texts = [each.strip() for each in given.split(",") if each.strip()]
    if any(not (each.isascii() and each.isdigit() and 1 <= int(each[:6]) <= 65535) for each in texts):
        raise click.BadParameter(f"{given[:64]!r}: ports from 1 to 65535 are needed, such as 8000,8001")
    if len(texts) > _MAX_PORTS:
        raise click.BadParameter(f"{len(texts)} ports: there may be {_MAX_PORTS}")
    return tuple(map(int, texts))


def duration(_: click.Context, __: click.Parameter, given: str) -> float:
    """Seconds, or a duration of Go such as 30s or 1m30s."""
    from headgate.kubeschema import duration as durations

    try:
        return float(given)
    except ValueError:
        pass
    try:
        return float(durations.parse(given))
    except durations.DurationError as error:
        raise click.BadParameter(f"{given[:32]!r} is not a duration such as 30s or 1m30s") from error
