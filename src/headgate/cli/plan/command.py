"""`headgate plan`: the commands."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import click

from headgate.cli import options
from headgate.cli.plan import changes, sources

if TYPE_CHECKING:
    from headgate.planning.changing import Change, Demand


_NOTHING = "nothing would change; give an option such as --slo-ttft 300"


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


_solver = options.together(
    click.option(
        "--percentile",
        "default",
        callback=_percentile,
        metavar="PERCENT|mean",
        help="Share of requests that must meet slo-ttft, for targets without slo-percentile. "
        "Default: 95, or mean with --reference.",
    ),
    click.option(
        "--time-limit",
        type=click.FloatRange(0, 3600),
        default=10.0,
        metavar="SECONDS",
        help="Time for the solver; after it, the best plan so far is printed.",
    ),
)


def _chosen(default: float | None, otherwise: float | None = 95.0) -> float | None:
    """The percentile to plan for; None: the mean."""
    return otherwise if default is None else default or None


@plan.command()
@sources.file_argument()
@click.option(
    "--reference",
    is_flag=True,
    help="Choose as the reference autoscaler does: each server alone, or greedily within the capacity.",
)
@_solver
@options.output("text", "json")
def solve(file: str, reference: bool, default: float | None, time_limit: float, output: str) -> None:
    """Solve a system description: the cheapest replicas that meet all objectives.

    FILE is a JSON document with accelerators, models, classes, servers and capacity, or - for standard input.

    Example: headgate plan solve examples/planning/system.json
    """
    from headgate.cli.objects import printing
    from headgate.cli.plan import rendering
    from headgate.planning import solving

    described = sources.described(file)
    found = (
        solving.as_reference(described, _chosen(default, None))
        if reference
        else solving.exactly(described, _chosen(default), limit_s=time_limit)
    )
    if output == "json":
        click.echo(rendering.as_json(found), nl=False)
        return
    for line in rendering.as_text(described, found):
        click.echo(printing.escaped(line))


@plan.command()
@sources.file_or_server
@changes.demand
@_solver
@options.output("text", "json")
def explain(
    source: sources.Source,
    demand: list[Demand],
    default: float | None,
    time_limit: float,
    output: str,
) -> None:
    """Explain a plan: what each model needs, what limits it, and what else could be.

    FILE is a system description, or - for standard input. Without it, the VariantAutoscalings of the server
    are planned, for the loads that the controller has planned for, or that --demand gives.

    \b
    Examples:
      headgate plan explain examples/planning/system.json
      headgate plan explain -n llm
      headgate plan explain -n llm --demand meta/llama-3.1-8b=600,512,256
    """
    from headgate.cli.objects import printing
    from headgate.cli.plan import explained
    from headgate.planning import changing, explaining, solving

    with changes.explained():
        found = sources.read(source, demand)
        system = changing.changed(found.system, found.others)
    solution = solving.exactly(system, _chosen(default), limit_s=time_limit)
    demands = explaining.explain(system, solution, _chosen(default))
    if output == "json":
        click.echo(explained.as_json([*demands], found.problems, found.learned), nl=False)
        return
    for line in explained.as_text(demands, found.problems, found.unplanned, found.learned):
        click.echo(printing.escaped(line))


@plan.command("what-if")
@sources.file_or_server
@changes.others
@changes.demand
@_solver
@options.output("text", "json")
def what_if(
    source: sources.Source,
    demand: list[Demand],
    default: float | None,
    time_limit: float,
    output: str,
    **others: list[Change],
) -> None:
    """Compare the plan with that for other objectives, prices, accelerators or demands.

    FILE is a system description, or - for standard input. Without it, the VariantAutoscalings of the server
    are planned, for the loads that the controller has planned for. If it has not, the first --demand of a
    model is its load in both plans, and a second one that of the other.

    \b
    Examples:
      headgate plan what-if examples/planning/system.json --slo-ttft Premium=300
      headgate plan what-if -n llm --demand meta/llama-3.1-8b=x2
      headgate plan what-if examples/planning/system.json --demand llama-8b=x2 --capacity L40S=8
    """
    from headgate.cli.objects import printing
    from headgate.cli.plan import explained
    from headgate.planning import changing, solving

    present, later = changes.of_present(demand) if source.file is None else ([], demand)
    wanted: list[Change] = [*itertools.chain.from_iterable(others.values())]
    if not (wanted or demand):
        raise click.UsageError(_NOTHING)
    with changes.explained():
        found = sources.read(source, present)
        wanted += [*found.others, *later]
        if not wanted:
            raise click.UsageError(_NOTHING)
        other = changing.changed(found.system, wanted)
    before, after = (
        solving.exactly(each, _chosen(default), limit_s=time_limit) for each in (found.system, other)
    )
    if output == "json":
        click.echo(explained.comparison_as_json(before, after), nl=False)
        return
    for line in explained.comparison_as_text(found.system, before, after):
        click.echo(printing.escaped(line))
