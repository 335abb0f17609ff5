"""`headgate simulate trace`: replay a trace of requests over a simulated fleet, in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from headgate.cli import options
from headgate.cli.simulate.completing import (
    complete_policies,
    complete_profile,
    complete_workload,
    list_workloads,
)

_COUNT = click.IntRange(min=1)


_TRAFFIC = options.together(
    click.option(
        "--format",
        type=click.Choice(["auto", "mooncake", "azure", "burstgpt"]),
        default="auto",
        help="Format of the trace; auto detects it from the first line.",
    ),
    click.option("--block-tokens", type=_COUNT, default=512, help="Tokens per block of a Mooncake trace."),
    click.option(
        "--workload",
        metavar="NAME",
        shell_complete=complete_workload,
        help="Instead of FILE: generated traffic.",
    ),
    click.option(
        "--set",
        "parameters",
        multiple=True,
        metavar="NAME=NUMBER",
        help="Parameter of the workload; repeatable.",
    ),
    click.option(
        "--workloads",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=list_workloads,
        help="List the workloads with their parameters, and exit.",
    ),
    click.option("--limit", type=_COUNT, help="Replay only this many requests, from the start."),
    click.option(
        "--duration",
        callback=options.seconds,
        metavar="TIME",
        help="Replay only requests that arrive within this time of the trace.",
    ),
)
_PACE = options.together(
    click.option(
        "--rate-scale",
        callback=options.pace,
        metavar="NUMBER",
        help="Factor on the arrival rate: 2 is twice as fast.",
    ),
    click.option("--rate", callback=options.pace, metavar="RATE", help="Average requests per second."),
    click.option(
        "--rates", callback=options.paces, metavar="RATE,...", help="Several rates, one after the other."
    ),
    click.option(
        "--find-rate", is_flag=True, help="Find the highest rate at which first tokens are in time."
    ),
    click.option(
        "--attain",
        type=click.FloatRange(0, 1, min_open=True),
        default=0.9,
        help="With --find-rate: share of requests whose first token must be in time.",
    ),
    click.option(
        "--curve",
        type=click.Path(dir_okay=False, allow_dash=True),
        metavar="FILE",
        help="Let the rate follow this CSV of start_s,requests_per_s, with the same average.",
    ),
    click.option(
        "--closed-loop",
        is_flag=True,
        help="Send each turn of a conversation after the previous response and a pause.",
    ),
    click.option(
        "--jitter",
        default="auto",
        metavar="auto|off|TIME",
        help="Delay each request randomly by up to this time; auto: by the grid of the trace's times.",
    ),
)
_FLEET = options.together(
    click.option(
        "--fleet",
        type=click.Path(dir_okay=False, allow_dash=True),
        metavar="FILE",
        help="Fleet file in YAML.",
    ),
    click.option(
        "--replicas", type=_COUNT, help="Instead of --fleet: number of equal engines.  [default: 8]"
    ),
    click.option(
        "--profile",
        shell_complete=complete_profile,
        help="Their profile; `headgate simulate profiles` lists them.  [default: 8b-h100]",
    ),
    click.option(
        "--engine",
        "constants",
        multiple=True,
        metavar="NAME=NUMBER",
        help="Engine constant, such as kv_blocks=600; repeatable.",
    ),
    click.option(
        "--policy",
        metavar="NAME[,NAME...]",
        shell_complete=complete_policies,
        help="Policies that choose endpoints.  [default: predicted]",
    ),
    click.option(
        "--policy-config",
        multiple=True,
        type=click.Path(allow_dash=True),
        metavar="FILE",
        help="Policy as an EndpointPickerConfig or a Kthena scheduler configuration; repeatable.",
    ),
    click.option(
        "--slo-ttft",
        callback=options.seconds,
        metavar="TIME",
        help="Objective: time to first token.  [default: 2s]",
    ),
    click.option(
        "--slo-tpot",
        callback=options.seconds,
        metavar="TIME",
        help="Objective: mean time per output token after the first.",
    ),
)
_OUTPUT = options.together(
    click.option("--seed", type=int, default=1, help="Equal seeds produce equal output."),
    options.output("text", "wide", "json"),
    click.option(
        "--plots",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIRECTORY",
        help="Write plots as PNG and SVG.",
    ),
    click.option("--compare", is_flag=True, help="Also compare each policy with the first."),
)


@click.command(short_help="Replay a trace over a simulated fleet.")
@click.argument("file", required=False, type=click.Path(allow_dash=True), metavar="[FILE]")
@_TRAFFIC
@_PACE
@_FLEET
@_OUTPUT
def trace(**given: Any) -> None:
    """Replay a trace over a simulated fleet in virtual time, and compare scheduling policies.

    Uses the policies of the gateway and the engines of `headgate simulate engine`. Prints one row for each
    policy: latencies, share of requests within the objective, cache hits, and balance (the busiest engine's
    work over the mean).

    \b
    Examples:
      headgate simulate trace conversation.jsonl --replicas 8 --policy predicted,least-work
      headgate simulate trace conversation.jsonl --fleet fleet.yaml --rates 4,6,8 --plots plots
      headgate simulate trace --workload shared-prefix --set prefixes=20 --find-rate
    """
    from headgate.cli.simulate import comparing, plan

    comparing.run(plan.Options(**given))
