"""`headgate autoscale replay`: the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from headgate.cli import options
from headgate.cli.simulate.completing import complete_profile


def _seconds(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    """Parse 90s, 500ms or 1m30s as seconds."""
    from headgate.kubeschema import duration

    if text is None:
        return None
    try:
        seconds = duration.parse(text)
    except duration.DurationError:
        seconds = -1.0
    if seconds < 0:
        raise click.BadParameter(f"{text!r} is not a time such as 30s, 500ms or 1m30s", ctx, param)
    return seconds


@click.command()
@click.argument("policy", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--trace",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True),
    required=True,
    help="Trace of requests, or - for standard input.",
)
@click.option(
    "--format",
    type=click.Choice(["auto", "mooncake", "azure", "burstgpt"]),
    default="auto",
    help="Format of the trace; auto detects it from the first line.",
)
@click.option("--name", metavar="NAME", help="The policy, if the file has several.")
@click.option("--profile", shell_complete=complete_profile, help="Engine profile of a replica.")
@click.option(
    "--cold-start",
    callback=_seconds,
    metavar="TIME",
    default="60s",
    help="How long a replica takes to start.",
)
@click.option(
    "--min", "minimum", type=click.IntRange(1), help="Fewest replicas. Default: the binding's, or 1."
)
@click.option(
    "--max", "maximum", type=click.IntRange(1), help="Most replicas. Default: the binding's, or 100."
)
@click.option("--begin-with", type=click.IntRange(1), help="Replicas at the beginning. Default: the fewest.")
@click.option("--ttft", callback=_seconds, metavar="TIME", default="2s", help="SLO of the first token.")
@click.option("--tpot", callback=_seconds, metavar="TIME", default="100ms", help="SLO of each further token.")
@click.option("--duration", callback=_seconds, metavar="TIME", help="Only the beginning of the trace.")
@click.option(
    "--rate-scale",
    type=click.FloatRange(0.001, 1e6),
    default=1.0,
    help="Factor on the arrival rate: 2 is twice as fast.",
)
@click.option(
    "--png",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also draw replicas, load and SLO over time into this file; needs matplotlib.",
)
@options.output("text", "json")
def replay(policy: str, output: str, png: Path | None, **given: Any) -> None:
    """Try an AutoscalingPolicy on a trace of requests.

    Replays the trace with simulated replicas, whose number the policy decides as the controller would, and
    shows replicas, load and SLO over time. FILE is a manifest with the policy; a binding to it in the same
    file sets the bounds.

    Example: headgate autoscale replay policy.yaml --trace azure.csv --cold-start 2m --png replay.png
    """
    from headgate.cli.autoscale import drawing, replaying

    if png is not None:
        drawing.need_matplotlib()
    run = replaying.run(policy, given)
    render = replaying.as_json if output == "json" else replaying.as_text
    click.echo(render(run), nl=False)
    if png is not None:
        try:
            drawing.draw(run, png)
        except OSError as error:
            raise click.ClickException(f"--png {png}: {error.strerror or error}") from None
