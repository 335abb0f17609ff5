"""Which router gets the most out of a fleet: published formulas and ours on published traces, in one table.

Each policy picks through `headgate.scheduling.pick` with the gateway's own ledger, in virtual time. Engines
are of first order (`contest/replicas.py`), or step (`contest/stepped.py`). docs/benchmarks.md says more.

    make bench-routing ARGS="--traces DIR"
    make bench-routing ARGS="--traces DIR --engine step --quick"
    make bench-routing ARGS="--traces DIR --quick --only 'headgate,Dynamo lmetric'"
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from contest.capacity import SHARE, TARGET_S, highest_rate
from contest.policies import ORACLES, POLICIES
from contest.replay import Replay
from contest.replicas import Fleet
from contest.stepped import Stepped
from headgate.simulator import traces
from headgate.simulator.fleet.summary import percentiles
from headgate.simulator.traces import TimedRequest

LOWEST_RATE, HIGHEST_RATE = 0.5, 20.0
QUICK_REQUESTS = 2000
STEPS, QUICK_STEPS = 9, 5
SHOWN = ("p50", "p90", "p99")

progress = Console(stderr=True)


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """A trace on a fleet."""

    name: str
    trace: str
    fleet: Fleet
    fixed_rate: float
    """Requests a second at which hit rate and percentiles are taken."""
    ideal_hit_rate: float


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """How a policy did in a cell."""

    policy: str
    cell: str
    highest_rate: float
    """Requests a second at which 90 % of the first tokens come within 2 s."""
    fixed_rate: float
    hit_rate: float
    of_ideal: float
    """The hit rate over that of one endless cache."""
    ttft_s: dict[str, float]
    within_target: float
    decision_us: float


ENGINES: dict[str, type[Replay] | type[Stepped]] = {"first-order": Replay, "step": Stepped}
FIXED_RATES = {
    ("first-order", "conversation", 6000): 12.0,
    ("first-order", "conversation", 600): 8.0,
    ("first-order", "synthetic", 6000): 12.0,
    ("first-order", "synthetic", 600): 5.0,
    ("step", "conversation", 6000): 7.0,
    ("step", "conversation", 600): 5.0,
}
USUAL_FIXED_RATE = 5.0


def read(path: Path, limit: int | None, seed: int) -> list[TimedRequest]:
    """The requests of a trace, those on a coarse grid of time spread evenly over it."""
    with path.open("rb") as lines:
        requests = list(traces.requests(path.name, lines, traces.Mooncake()))
    arrivals = traces.Arrivals(limit=limit, jitter_s=traces.grid_s(requests))
    return traces.arrange(requests, arrivals, random.Random(seed))


def ideal_hit_rate(requests: Sequence[TimedRequest]) -> float:
    """Of one cache that forgets nothing, in blocks and with the last of each prompt, as replicas count."""
    seen: set[int] = set()
    hits = blocks = 0
    for request in requests:
        hits += next(
            (at for at, block in enumerate(request.prefix) if block not in seen), len(request.prefix)
        )
        blocks += len(request.prefix)
        seen.update(request.prefix)
    return hits / blocks


def score(
    policy: str, cell: Cell, requests: Sequence[TimedRequest], engine: str, steps: int, seed: int
) -> Score:
    usual_rate = traces.mean_rate(requests)

    def replay() -> Replay | Stepped:
        return ENGINES[engine](cell.fleet, POLICIES[policy], seed)

    def is_met(rate: float) -> bool:
        return replay().keeps(requests, rate / usual_rate, TARGET_S, SHARE)

    highest = highest_rate(is_met, LOWEST_RATE, HIGHEST_RATE, steps)
    fixed = replay().run(requests, cell.fixed_rate / usual_rate)
    ttft_s = percentiles(fixed.ttfts_s)
    return Score(
        policy=policy,
        cell=cell.name,
        highest_rate=round(highest, 2),
        fixed_rate=cell.fixed_rate,
        hit_rate=round(fixed.hit_rate, 4),
        of_ideal=round(fixed.hit_rate / cell.ideal_hit_rate, 3),
        ttft_s={name: round(getattr(ttft_s, name), 3) for name in SHOWN},
        within_target=round(fixed.within(TARGET_S), 4),
        decision_us=round(fixed.decision_us, 1),
    )


def table(cells: Sequence[Cell], scores: Sequence[Score]) -> Table:
    out = Table(box=box.MARKDOWN)
    out.add_column("policy")
    for cell in cells:
        out.add_column(f"{cell.name}: most req/s", justify="right")
        out.add_column(f"at {cell.fixed_rate:g}/s: in 2 s, hits, TTFT p50/p90/p99", justify="right")
    out.add_column("µs a decision", justify="right")
    for policy in dict.fromkeys(each.policy for each in scores):
        row = [policy]
        own = [each for each in scores if each.policy == policy]
        for each in own:
            ttft = "/".join(f"{seconds:.3g}" for seconds in each.ttft_s.values())
            most = f"{each.highest_rate:.1f}" if each.highest_rate > LOWEST_RATE else "never"
            row += [most, f"{each.within_target:.1%}, {each.hit_rate:.1%}, {ttft} s"]
        out.add_row(*row, f"{max(each.decision_us for each in own):.0f}")
    return out


@click.command()
@click.option(
    "--traces", "folder", type=click.Path(path_type=Path), required=True, help="The folder of the traces."
)
@click.option("--trace", "chosen", default="conversation,synthetic", help="Of mooncake_*.jsonl.")
@click.option("--cache", "caches", default="6000,600", help="Blocks of 512 tokens of each replica.")
@click.option("--only", help="Names of policies; all if not given.")
@click.option("--engine", type=click.Choice(list(ENGINES)), default="first-order")
@click.option("--replicas", default=8, type=click.IntRange(1))
@click.option("--prefill-rate", default=16_000.0, type=click.FloatRange(1.0), help="Tokens a second of each.")
@click.option("--steps", type=click.IntRange(1), help="Of the bisection; 9, or 5 if it is to be quick.")
@click.option("--quick", is_flag=True, help="The first 2,000 requests of each trace.")
@click.option("--seed", default=1, help="Of jitter and ties.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table")
def main(**options: Any) -> None:
    """Replay traces through every policy and compare what rate each can carry."""
    names = _names(options["only"], options["engine"])
    if unknown := [name for name in names if name not in POLICIES]:
        raise click.UsageError(f"--only: no policy {', '.join(unknown)}; there are {', '.join(POLICIES)}")
    cells, requests = _cells(options)
    steps = options["steps"] or (QUICK_STEPS if options["quick"] else STEPS)
    scores = []
    for name in names:
        for cell in cells:
            scores.append(score(name, cell, requests[cell.trace], options["engine"], steps, options["seed"]))
            progress.print(f"{name}, {cell.name}: {scores[-1].highest_rate:.2f} req/s", highlight=False)
    if options["output"] == "json":
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(scores)) + b"\n")
    else:
        Console(width=400).print(table(cells, scores))


def _names(only: str | None, engine: str) -> list[str]:
    if only is not None:
        return [name.strip() for name in only.split(",")]
    return [name for name in POLICIES if engine == "first-order" or name not in ORACLES]


def _cells(options: dict[str, Any]) -> tuple[list[Cell], dict[str, list[TimedRequest]]]:
    requests: dict[str, list[TimedRequest]] = {}
    cells = []
    for trace in options["chosen"].split(","):
        path = options["folder"] / f"mooncake_{trace}.jsonl"
        if not path.is_file():
            raise click.UsageError(f"--traces: there is no {path}; docs/benchmarks.md says where to get it")
        requests[trace] = read(path, QUICK_REQUESTS if options["quick"] else None, options["seed"])
        ideal = ideal_hit_rate(requests[trace])
        for blocks in map(int, options["caches"].split(",")):
            size = Fleet(options["replicas"], options["prefill_rate"], blocks)
            rate = FIXED_RATES.get((options["engine"], trace, blocks), USUAL_FIXED_RATE)
            cells.append(
                Cell(
                    name=f"{trace}, {blocks}", trace=trace, fleet=size, fixed_rate=rate, ideal_hit_rate=ideal
                )
            )
    return cells, requests


if __name__ == "__main__":
    main()
