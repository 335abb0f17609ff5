"""Which autoscaler keeps the SLO with the fewest GPU hours: published formulas and ours on public traces.

Requests are served by a model of replicas that start, serve and drain in virtual time
(`headgate.simulator.autoscaling`). Each autoscaler is called as often as in its project, and decides by its
published formula. A clairvoyant one, which knows all requests, bounds what is possible. docs/benchmarks.md
has details.

    make bench-autoscaling ARGS="--traces DIR"
    make bench-autoscaling ARGS="--traces DIR --quick"
    make bench-autoscaling ARGS="--traces DIR --only headgate,dynamo --trace azure-conv --cold-start 300"
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from autoscaling_contest import clairvoyant, contestants, traffic
from autoscaling_contest.calibration import calibrate
from autoscaling_contest.ours import ours
from autoscaling_contest.standings import CLAIRVOYANT, OURS, Result, Standing, standings
from headgate.simulator.autoscaling import Controller, Score, Setting, replay, score
from headgate.simulator.model.profiles import PROFILES
from headgate.traffic.traces import TraceError

PROFILE = "8b-h100"
LONGEST_REQUEST = 250_000
COLD_STARTS_S = (30.0, 90.0, 300.0)
QUICK_S = 600.0
LATE_SHARES = (0.0, 0.01, 0.05, 0.2)
"""Of the clairvoyant plans: shares of requests that may be late in each slot."""

progress = Console(stderr=True)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of `--output json`."""

    results: list[Result]
    standings: list[Standing]


def contest(
    folder: Path,
    names: Sequence[str],
    cold_starts_s: Sequence[float],
    limit_s: float,
    case: tuple[str, float],
) -> list[Result]:
    """All results on one trace at one scale."""
    trace = traffic.read(folder, *case, limit_s=limit_s)
    engine = msgspec.structs.replace(PROFILES[PROFILE].config, max_model_len=LONGEST_REQUEST)
    setting = Setting(engine, 0.0, trace.slo)
    calibration = calibrate(trace.works, setting)
    rate = len(trace.works) / trace.seconds
    begins_with = max(1, round(rate / max(calibration.requests_per_s, 0.01) + 0.5))
    makes: dict[str, contestants.Make] = {
        OURS: partial(ours, setting),
        **contestants.published(setting, calibration),
    }
    results = []
    plans = []
    if CLAIRVOYANT in names:
        plans = [clairvoyant.plan(trace.works, setting, share) for share in LATE_SHARES]
    for cold_start_s in cold_starts_s:
        here = setting._replace(cold_start_s=cold_start_s, begins_with=begins_with)
        for name, make in makes.items():
            if name in names:
                controller: Controller = make()
                results.append(_result(trace.name, here, name, score(replay(trace.works, controller, here))))
        for share, plan in zip(LATE_SHARES, plans, strict=False):
            bound = clairvoyant.follow(trace.works, plan, here)
            found = score(bound.run)._replace(replica_hours=bound.replica_hours)
            results.append(_result(trace.name, here, f"{CLAIRVOYANT} {share:g}", found))
    return results


def _result(trace: str, setting: Setting, name: str, found: Score) -> Result:
    return Result(
        trace=trace,
        cold_start_s=setting.cold_start_s,
        autoscaler=name,
        attainment=round(found.attainment, 5),
        ttft_attainment=round(found.ttft_attainment, 5),
        tpot_attainment=round(found.tpot_attainment, 5),
        gpu_hours=round(found.replica_hours, 3),
        reversals=found.reversals,
        worst_minute=round(found.worst_minute, 3),
    )


def table(results: Sequence[Result]) -> Table:
    out = Table(box=box.MARKDOWN)
    names = (
        "trace",
        "cold start",
        "autoscaler",
        "SLO",
        "TTFT",
        "TPOT",
        "GPU hours",
        "reversals",
        "worst minute",
    )
    for name in names:
        out.add_column(name, justify="left" if name in ("trace", "autoscaler") else "right")
    for each in results:
        out.add_row(
            each.trace,
            f"{each.cold_start_s:g} s",
            each.autoscaler,
            f"{each.attainment:.2%}",
            f"{each.ttft_attainment:.2%}",
            f"{each.tpot_attainment:.2%}",
            f"{each.gpu_hours:.2f}",
            str(each.reversals),
            f"{each.worst_minute:.0%}",
        )
    return out


def standings_table(found: Sequence[Standing]) -> Table:
    out = Table(box=box.MARKDOWN)
    for name in ("trace", "cold start", "SLO", "GPU hours", "of the bound", "better in both"):
        out.add_column(name, justify="left" if name in ("trace", "better in both") else "right")
    for each in found:
        of_bound = f"{each.of_bound:.2f}" if each.of_bound is not None else ""
        better = ", ".join(each.better) or "none"
        out.add_row(
            each.trace,
            f"{each.cold_start_s:g} s",
            f"{each.attainment:.2%}",
            f"{each.gpu_hours:.2f}",
            of_bound,
            better,
        )
    return out


@click.command()
@click.option(
    "--traces", "folder", type=click.Path(path_type=Path), required=True, help="Directory of the traces."
)
@click.option(
    "--trace", "chosen", default=",".join(traffic.SOURCES), show_default="all", help="Traces to use."
)
@click.option("--scale", "scales", help="Scales of traces. Default: those of each trace.")
@click.option(
    "--cold-start", "cold_starts", default="30,90,300", help="Seconds that a replica takes to start."
)
@click.option("--only", help="Names of autoscalers. Default: all.")
@click.option(
    "--seconds", default=float("inf"), help="Only the first seconds of each trace.", show_default="all"
)
@click.option("--processes", default=1, type=click.IntRange(1), help="Traces that are replayed side by side.")
@click.option("--quick", is_flag=True, help="The first 10 minutes of each trace at its smallest scale, 30 s.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table")
def main(**options: Any) -> None:
    """Replay traces with every autoscaler and compare SLO attainment and GPU hours."""
    names = _names(options["only"])
    cases = _cases(options)
    cold_starts_s = (
        [30.0] if options["quick"] else [float(each) for each in options["cold_starts"].split(",")]
    )
    limit_s = min(options["seconds"], QUICK_S) if options["quick"] else options["seconds"]
    one = partial(contest, options["folder"], names, cold_starts_s, limit_s)
    results: list[Result] = []
    try:
        with ProcessPoolExecutor(options["processes"]) as pool:
            for case, found in zip(
                cases, (pool.map if options["processes"] > 1 else map)(one, cases), strict=True
            ):
                progress.print(f"{case[0]} x{case[1]:g}: {len(found)} results", highlight=False)
                results += found
    except (OSError, TraceError) as error:
        raise click.UsageError(f"--traces: {error}; docs/benchmarks.md says where to get the files") from None
    found = standings(results)
    if options["output"] == "json":
        report = Report(results=results, standings=found)
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
        return
    console = Console(width=160)
    console.print(table(results))
    if found:
        console.print(standings_table(found))


def _names(only: str | None) -> list[str]:
    known = [OURS, *contestants.NAMES, CLAIRVOYANT]
    if only is None:
        return known
    names = [name.strip() for name in only.split(",")]
    if unknown := [name for name in names if name not in known]:
        raise click.UsageError(f"--only: no autoscaler {', '.join(unknown)}; there are {', '.join(known)}")
    return names


def _cases(options: dict[str, Any]) -> list[tuple[str, float]]:
    chosen = options["chosen"].split(",")
    if unknown := [name for name in chosen if name not in traffic.SOURCES]:
        raise click.UsageError(f"--trace: no {', '.join(unknown)}; there are {', '.join(traffic.SOURCES)}")
    cases = []
    for name in chosen:
        scales = traffic.SOURCES[name].scales
        if options["scales"]:
            scales = tuple(float(each) for each in options["scales"].split(","))
        cases += [(name, scale) for scale in (scales[:1] if options["quick"] else scales)]
    return cases


if __name__ == "__main__":
    main()
