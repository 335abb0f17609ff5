"""How a noisy neighbor affects other tenants: our queue and known ones, in virtual time and live.

Eight tenants have equal shares of a fleet; one of them requests ten times its share. Each queue in turn gets
the same requests in front of the same engines. The goal: the p99 of the others' time to first token is within
1.3 times that of a tenant alone on an eighth of the fleet. docs/benchmarks.md has details.

    make bench-fairness
    make bench-fairness ARGS="--longer 8"
    make bench-fairness ARGS="--longer 8 --live --seconds 120 --only headgate"
"""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import asdict

import click
from rich import box
from rich.console import Console
from rich.table import Table

import cpu
from headgate.traffic.traces import TimedRequest
from neighbours import live, virtual
from neighbours.queues import QUEUES
from neighbours.seen import Outcome, OverHttp, outcome
from neighbours.traffic import QUIET, TENANTS, Traffic

ALONE, WITHOUT = "alone on an eighth", "without the noise"
PROBE_S = 60.0
"""Duration of the traffic that measures the fleet's own rate."""

progress = Console(stderr=True)


def table(rows: dict[str, Outcome], traffic: Traffic, where: str) -> Table:
    alone = rows[ALONE]
    shown = Table(
        title=f"Seven tenants at {traffic.share:.2f} requests/s, one at {traffic.times:g} times that work "
        f"({traffic.longer:g} times as long), {traffic.seconds:.0f} s {where}",
        title_justify="left",
        box=box.SIMPLE,
    )
    columns = ["queue", "TTFT p50", "p99", "x alone", "noisy p50", "share", "tokens/s"]
    if alone.over_http is not None:
        columns += ["p99 virtual", "CPUs"]
    for place, column in enumerate(columns):
        shown.add_column(column, justify="right" if place else "left")
    for name, row in rows.items():
        noisy = "-" if row.noisy_p50_s is None else f"{row.noisy_p50_s:.2f} s"
        times = row.quiet_p99_s / alone.quiet_p99_s
        cells = [
            f"{name}{f' ({row.lost} lost)' if row.lost else ''}",
            f"{row.quiet_p50_s:.2f} s",
            f"{row.quiet_p99_s:.2f} s",
            "" if name == ALONE else f"{times:.2f}",
            noisy,
            f"{row.noisy_share:.0%}",
            f"{row.work_per_s:,.0f}",
        ]
        if row.over_http is not None:
            cells += [f"{row.over_http.virtual_p99_s:.2f} s", f"{row.over_http.cores:.2f}"]
        shown.add_row(*cells)
    return shown


@click.command(help=__doc__)
@click.option(
    "--live", "is_live", is_flag=True, help="Run over HTTP, in real time, through a gateway process."
)
@click.option(
    "--replicas",
    type=click.IntRange(8),
    default=8,
    show_default=True,
    help="Engines; an eighth of them is for one tenant alone.",
)
@click.option("--seconds", type=click.FloatRange(min=10), default=300.0, show_default=True)
@click.option(
    "--load", type=click.FloatRange(0.1, 0.95), default=0.8, show_default=True, help="Load of all shares."
)
@click.option(
    "--times", type=click.FloatRange(1), default=10.0, show_default=True, help="Multiple of its share."
)
@click.option(
    "--longer",
    type=click.FloatRange(1),
    default=1.0,
    show_default=True,
    help="Length of noisy prompts, as a multiple of the others'.",
)
@click.option("--prompt-tokens", type=click.IntRange(16), default=4000, show_default=True, help="Mean.")
@click.option("--output-tokens", type=click.IntRange(1), default=32, show_default=True, help="Mean.")
@click.option(
    "--slower",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    help="Slow down engines, and with them requests, so that Python's overhead matters less over HTTP.",
)
@click.option("--seed", default=1, show_default=True)
@click.option("--only", default=",".join(QUEUES), show_default=True, help="Queues.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(
    is_live: bool,
    replicas: int,
    seconds: float,
    load: float,
    times: float,
    longer: float,
    prompt_tokens: int,
    output_tokens: int,
    slower: float,
    seed: int,
    only: str,
    output: str,
) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwind, so that every started process ends
    names = [name.strip() for name in only.split(",") if name.strip()]
    if unknown := [name for name in names if name not in QUEUES]:
        raise click.BadParameter(f"{', '.join(unknown)}: not one of {', '.join(QUEUES)}", param_hint="--only")

    def traffic(rate: float, seconds: float) -> Traffic:
        return Traffic(
            rate=rate,
            load=load,
            times=times,
            longer=longer,
            seconds=seconds,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            seed=seed,
        )

    probe = traffic(8.0 * replicas / slower, PROBE_S * slower).requests(noise=False)
    chosen = traffic(virtual.carried(probe, replicas, seed, slower), seconds)

    def run(asked: list[TimedRequest], queue: str) -> Outcome:
        done = outcome(virtual.run(asked, replicas, QUEUES[queue], seed, slower), seconds)
        return over_http(live.run(asked, replicas, queue, slower), done) if is_live else done

    def alone(each: int) -> Outcome:
        runs = [virtual.run(chosen.quiet(one), each, QUEUES[names[0]], seed, slower) for one in QUIET]
        done = outcome([request for seen in runs for request in seen], seconds)
        if not is_live:
            return done
        asked = chosen.requests(noise=False)
        return over_http(live.run(asked, each * len(QUIET), names[0], slower, apart=QUIET), done)

    def over_http(ran: live.Ran, done: Outcome) -> Outcome:
        return outcome(ran.seen, seconds, OverHttp(cores=ran.cores, virtual_p99_s=done.quiet_p99_s))

    progress.print(f"[dim]{ALONE}")
    rows = {ALONE: alone(replicas // TENANTS)}
    progress.print(f"[dim]{WITHOUT}")
    rows[WITHOUT] = run(chosen.requests(noise=False), names[0])
    for name in names:
        progress.print(f"[dim]{name}")
        rows[name] = run(chosen.requests(noise=True), name)
    if output == "json":
        shown = {name: asdict(row) for name, row in rows.items()}
        settings = {**asdict(chosen), "slower": slower}
        click.echo(json.dumps({"settings": settings, "machine": cpu.machine(), "rows": shown}, indent=2))
    else:
        Console().print(table(rows, chosen, "over HTTP" if is_live else "of virtual time"))


if __name__ == "__main__":
    main()
