"""How fast plans are made and proven, whether a simulation confirms them, and planners on public traces.

Planners decide about the replicas of three variants of a model in virtual time, on the traces of the
autoscalers: ours, the reference's, each variant alone, and saturation. docs/benchmarks.md has details.

    make bench-planning
    make bench-planning ARGS="--only speed --seeds 5 --output json"
    make bench-planning ARGS="--only speed --shape mixed --first-seed 101 --seeds 50"
    make bench-planning ARGS="--only traces --traces DIR --quick"
    make bench-planning ARGS="--only traces --traces DIR --trace azure-conv --cold-start 300"
    make bench-planning ARGS="--only traces --traces DIR --trace azure-conv,azure-code --limits H100=6,L40S=4"
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import click
import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from autoscaling_contest import traffic
from headgate.planning import plan
from headgate.planning.candidates import candidates
from headgate.traffic.traces import TraceError
from planning_contest import contest, fitted, shapes
from planning_contest.simulated import CASES, confirm
from planning_contest.standings import (
    Comparison,
    Result,
    comparisons,
    frontier,
    shown,
    summary,
    verdicts,
)

PARTS = ("speed", "sizing", "simulation", "traces")
QUICK_S = 300.0

progress = Console(stderr=True)


def speed(names: Sequence[str], first: int, seeds: int, limit_s: float) -> list[dict[str, Any]]:
    """CPU time of plans, and whether they are proven."""
    rows = []
    for shape in names:
        for share in shapes.SHARES:
            problems = [shapes.problem(shape, share, seed) for seed in range(first, first + seeds)]
            seconds, plans = [], []
            for each in problems:
                begins = time.process_time()
                plans.append(plan(each, limit_s))
                seconds.append(time.process_time() - begins)
            rows.append(
                {
                    "variants": shape,
                    "accelerators": "no limit" if share is None else f"{share:.0%}",
                    "mean s": round(sum(seconds) / seeds, 2),
                    "median s": round(median(seconds), 2),
                    "p90 s": round(sorted(seconds)[int(0.9 * seeds)], 2),
                    "worst s": round(max(seconds), 2),
                    "over 1 s": f"{sum(each > 1 for each in seconds)} of {seeds}",
                    "proven": f"{sum(each.is_optimal for each in plans)} of {seeds}",
                    "widest gap": f"{max(each.gap for each in plans):.2%}",
                }
            )
    return rows


def sizing(seeds: int) -> list[dict[str, Any]]:
    """CPU time of the first pass over variants, of which no sizing is known."""
    seconds = []
    for seed in range(1, seeds + 1):
        system = shapes.system(seed)
        begins = time.process_time()
        candidates(system)
        seconds.append(time.process_time() - begins)
    return [
        {
            "variants": len(system.servers),
            "mean s": round(sum(seconds) / seeds, 2),
            "worst s": round(max(seconds), 2),
        }
    ]


def simulation(requests: int) -> list[dict[str, Any]]:
    """Replicas that are planned, and the fewest that would do."""
    tries = [(case, None) for case in CASES]
    tries += [(fitted.case_of(name), fitted.engine(name)) for name in fitted.ENGINES]
    rows = []
    for case, engine in tries:
        for per_minute in case.per_minute:
            found = confirm(case, per_minute, requests, engine=engine)
            rows.append(
                {
                    "profile": case.name,
                    "requests/min": per_minute,
                    "planned": found.planned,
                    "least": found.least,
                    "in time": f"{found.seen.in_time:.1%}",
                    "ITL ms": round(found.seen.itl_ms, 2),
                    "ITL target": round(case.itl_ms, 2),
                }
            )
    return rows


def traces(options: dict[str, Any]) -> list[Result]:
    """All planners on all traces. Raises UsageError."""
    known = contest.planners()
    names = _chosen("--planner", options["planners"], list(known))
    cases = _chosen("--trace", options["traces"], list(traffic.SOURCES))
    limit_s = min(options["seconds"], QUICK_S) if options["quick"] else options["seconds"]
    found: list[Result] = []
    try:
        if options["limits"]:
            scaled = [(case, traffic.SOURCES[case].scales[0]) for case in cases]
            capacity = _capacity(options["limits"])
            return contest.shared(options["folder"], scaled, capacity, options["cold_start_s"], limit_s)
        for case in cases:
            scale = traffic.SOURCES[case].scales[0]
            found += contest.contest(
                options["folder"], (case, scale), names, options["cold_start_s"], limit_s
            )
            progress.print(f"{case} x{scale:g}: {len(found)} results so far", highlight=False)
    except (OSError, TraceError) as error:
        raise click.UsageError(f"--traces: {error}; docs/benchmarks.md says where to get the files") from None
    return found


def _chosen(option: str, given: str | None, known: Sequence[str]) -> list[str]:
    names = list(known) if given is None else [each.strip() for each in given.split(",")]
    if unknown := [name for name in names if name not in known]:
        raise click.UsageError(f"{option}: no {', '.join(unknown)}; there are {', '.join(known)}")
    return names


def _capacity(given: str) -> dict[str, int]:
    try:
        return {kind: int(count) for kind, count in (each.split("=") for each in given.split(","))}
    except ValueError:
        raise click.UsageError(f"--limits: {given} is not as in H100=6,A100=4,L40S=8") from None


def trace_rows(results: Sequence[Result], compared: Sequence[Comparison]) -> Iterator[dict[str, Any]]:
    told = {(each.trace, each.planner): each.verdict for each in compared}
    for each in results:
        yield {
            "trace": each.trace,
            "planner": each.planner,
            "SLO": f"{each.attainment:.1%}",
            "TTFT": f"{each.ttft_attainment:.1%}",
            "TPOT": f"{each.tpot_attainment:.1%}",
            "cost $": f"{each.dollars:.2f}",
            "ours": told.get((each.trace, each.planner), ""),
            "reversals": each.reversals,
            "worst minute": f"{each.worst_minute:.0%}",
            "ms per plan": f"{each.plan_ms:.1f}",
        }


@click.command()
@click.option("--traces", "folder", type=click.Path(path_type=Path), help="Directory of the traces.")
@click.option("--only", type=click.Choice(PARTS))
@click.option("--seeds", default=3, type=click.IntRange(1), show_default=True)
@click.option("--first-seed", "first", default=1, show_default=True, help="Of the problems of --only speed.")
@click.option("--shape", "shapes", help="Names of problems of --only speed. Default: all.")
@click.option("--time-limit", "limit_s", default=10.0, show_default=True, help="Of each plan, in seconds.")
@click.option("--requests", default=20_000, show_default=True, help="Of each simulation.")
@click.option("--trace", "traces", help="Names of traces. Default: all.")
@click.option("--planner", "planners", help="Names of planners. Default: all.")
@click.option("--cold-start", "cold_start_s", default=90.0, show_default=True, help="Seconds.")
@click.option("--seconds", default=3600.0, show_default=True, help="Of each trace, from its beginning.")
@click.option("--limits", help="Accelerators, as H100=6,A100=4,L40S=8: the traces share them by priority.")
@click.option("--quick", is_flag=True, help="The first 5 minutes of each trace.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table")
def main(**options: Any) -> None:
    """Measure plans."""
    parts = [options["only"]] if options["only"] else list(PARTS)
    if options["folder"] is None and options["only"] == "traces":
        raise click.UsageError(
            "--only traces: --traces is missing; docs/benchmarks.md says where to get them"
        )
    found: dict[str, Any] = {}
    if "speed" in parts:
        names = _chosen("--shape", options["shapes"], list(shapes.SHAPES))
        found["speed"] = speed(names, options["first"], options["seeds"], options["limit_s"])
    if "sizing" in parts:
        found["sizing"] = sizing(options["seeds"])
    if "simulation" in parts:
        found["simulation"] = simulation(options["requests"])
    results: list[Result] = []
    if "traces" in parts and options["folder"] is not None:
        results = traces(options)
    compared = [] if options["limits"] else comparisons(results)
    if options["output"] == "json":
        if results:
            found |= {"traces": results, "comparisons": compared, "verdicts": verdicts(results)}
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
        return
    console = Console(width=160)
    found["traces"] = list(trace_rows(shown(results), compared))
    for rows in found.values():
        if rows:
            table = Table(*rows[0], box=box.MARKDOWN)
            for row in rows:
                table.add_row(*map(str, row.values()))
            console.print(table)
    if compared:
        console.print(summary(compared))
        console.print(frontier(verdicts(results)))


if __name__ == "__main__":
    main()
