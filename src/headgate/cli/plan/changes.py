"""Options that change a system before it is planned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from headgate.cli import options

if TYPE_CHECKING:
    from headgate.planning.changing import Change, Demand

_OF_SLO = "[CLASS|MODEL|CLASS/MODEL=]"


def _read(kind: str) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], list[Change]]:
    """Reads the values of an option for one kind of change."""

    def read(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> list[Change]:
        from headgate.planning import changing

        parsers: dict[str, Callable[[str], Change]] = {
            "ttft": changing.parse_slo("ttft"),
            "itl": changing.parse_slo("itl"),
            "tps": changing.parse_slo("tps"),
            "percentile": changing.parse_slo("percentile"),
            "price": changing.parse_price,
            "capacity": changing.parse_capacity,
            "demand": changing.parse_demand,
        }
        try:
            return [parsers[kind](text) for text in texts]
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return read


def _option(name: str, kind: str, metavar: str, told: str) -> Callable[[options.Command], options.Command]:
    return click.option(name, kind, multiple=True, callback=_read(kind), metavar=metavar, help=told)


demand = _option(
    "--demand",
    "demand",
    "[SERVER|DEMAND|MODEL=]RATE[,IN,OUT]|xFACTOR",
    "Requests per minute, with the mean tokens of prompts and responses; repeatable. Objects of a server: "
    "by MODEL, with both lengths.",
)
others = options.together(
    _option("--slo-ttft", "ttft", f"{_OF_SLO}MS", "Another target of TTFT; 0: none. Repeatable."),
    _option("--slo-itl", "itl", f"{_OF_SLO}MS", "Another target of the time between tokens; 0: none."),
    _option("--slo-tps", "tps", f"{_OF_SLO}TOKENS", "Another target of tokens per second; 0: none."),
    _option("--slo-percentile", "percentile", f"{_OF_SLO}PERCENT", "Share of requests that meet slo-ttft."),
    _option("--price", "price", "ACCELERATOR=CENTS", "Another price per hour."),
    _option("--capacity", "capacity", "TYPE=COUNT", "Another number of accelerators of a type."),
)
"""Passed as `ttft`, `itl`, `tps`, `percentile`, `price` and `capacity`."""


@contextmanager
def explained() -> Iterator[None]:
    """Turn changes that concern nothing into a message."""
    from headgate.planning.changing import ChangeError

    try:
        yield
    except ChangeError as error:
        raise click.ClickException(str(error)) from None


def of_present(demands: Sequence[Demand]) -> tuple[list[Demand], list[Demand]]:
    """Loads of objects, and what they change to: the first one that names a model, and the others."""
    present: dict[str, Demand] = {}
    for each in demands:
        if each.per_min is not None:
            present.setdefault(each.of, each)
    return [*present.values()], [each for each in demands if each not in present.values()]
