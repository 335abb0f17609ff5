"""How fast plans are proven, whether a simulation confirms them, and their cost on public traces.

make bench-planning
make bench-planning ARGS="--traces DIR --seeds 5"
make bench-planning ARGS="--only speed --output json"
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click
import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from headgate.planning import plan
from planning_contest import fitted, shapes
from planning_contest.simulated import CASES, confirm
from planning_contest.traces import costs

PARTS = ("speed", "simulation", "traces")


def speed(seeds: int, limit_s: float) -> list[dict[str, Any]]:
    """CPU time of plans, and whether they are proven."""
    rows = []
    for shape in shapes.SHAPES:
        for share in shapes.SHARES:
            problems = [shapes.problem(shape, share, seed) for seed in range(1, seeds + 1)]
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
                    "worst s": round(max(seconds), 2),
                    "proven": f"{sum(each.is_optimal for each in plans)} of {seeds}",
                    "widest gap": f"{max(each.gap for each in plans):.2%}",
                }
            )
    return rows


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


@click.command()
@click.option("--traces", "folder", type=click.Path(path_type=Path), help="Directory of the traces.")
@click.option("--only", type=click.Choice(PARTS))
@click.option("--seeds", default=3, type=click.IntRange(1), show_default=True)
@click.option("--time-limit", "limit_s", default=10.0, show_default=True, help="Of each plan, in seconds.")
@click.option("--requests", default=20_000, show_default=True, help="Of each simulation.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table")
def main(**options: Any) -> None:
    """Measure plans."""
    parts = [options["only"]] if options["only"] else list(PARTS)
    if options["folder"] is None and options["only"] == "traces":
        raise click.UsageError(
            "--only traces: --traces is missing; docs/benchmarks.md says where to get them"
        )
    found: dict[str, list[dict[str, Any]]] = {}
    if "speed" in parts:
        found["speed"] = speed(options["seeds"], options["limit_s"])
    if "simulation" in parts:
        found["simulation"] = simulation(options["requests"])
    if "traces" in parts and options["folder"] is not None:
        found["traces"] = costs(options["folder"])
    if options["output"] == "json":
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
        return
    console = Console(width=140)
    for rows in found.values():
        table = Table(*rows[0], box=box.MARKDOWN)
        for row in rows:
            table.add_row(*map(str, row.values()))
        console.print(table)


if __name__ == "__main__":
    main()
