"""`headgate plan`: the commands."""

from __future__ import annotations

import sys

import click

from headgate.cli import options

_MOST_BYTES = 64 * 2**20


@click.group()
def plan() -> None:
    """Plan which hardware serves which model, and with how many replicas."""


def _percentile(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    """0 is the mean, None not given."""
    if text is None or text == "mean":
        return None if text is None else 0.0
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= 99.99:
        raise click.BadParameter(f"{text!r} is neither a number from 1 to 99.99 nor mean", ctx, param)
    return value


@plan.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--reference",
    is_flag=True,
    help="Choose as the reference autoscaler does: each server alone, or greedily within the capacity.",
)
@click.option(
    "--percentile",
    callback=_percentile,
    metavar="PERCENT|mean",
    help="Share of requests that must meet slo-ttft, for targets without slo-percentile. "
    "Default: 95, or mean with --reference.",
)
@click.option(
    "--time-limit",
    type=click.FloatRange(0, 3600),
    default=10.0,
    metavar="SECONDS",
    help="Time for the solver; after it, the best plan so far is printed.",
)
@options.output("text", "json")
def solve(file: str, reference: bool, percentile: float | None, time_limit: float, output: str) -> None:
    """Solve a system description: the cheapest replicas that meet all objectives.

    FILE is a JSON document with accelerators, models, classes, servers and capacity, or - for standard input.

    Example: headgate plan solve examples/planning/system.json
    """
    from headgate.cli.objects import printing
    from headgate.cli.plan import rendering
    from headgate.planning import solving, system

    name = "standard input" if file == "-" else file
    with click.open_file(file, "rb") as opened:
        data = opened.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise click.ClickException(f"{name} has more than {_MOST_BYTES} bytes")
    try:
        described = system.read(data)
    except system.SystemErrors as errors:
        for error in errors.errors:
            click.echo(printing.escaped(f"{name}: {error.message()}"), err=True)
        sys.exit(1)
    default = None if reference else 95.0
    chosen = default if percentile is None else percentile or None
    found = (
        solving.as_reference(described, chosen)
        if reference
        else solving.exactly(described, chosen, limit_s=time_limit)
    )
    if output == "json":
        click.echo(rendering.as_json(found), nl=False)
        return
    for line in rendering.as_text(described, found):
        click.echo(printing.escaped(line))
