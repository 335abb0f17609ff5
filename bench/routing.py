"""Which router gets the most out of a fleet: published formulas and ours on published traces, in one table.

Each policy picks through `headgate.scheduling.pick` with the gateway's own ledger, in virtual time. Engines
are first-order (`contest/replicas.py`) or stepped (`contest/stepped.py`). Rows (`contest/rows.py`) vary
engines or requests, and each has a cell for each trace and cache size. docs/benchmarks.md has details.

    make bench-routing ARGS="--traces DIR"
    make bench-routing ARGS="--traces DIR --engine step --quick"
    make bench-routing ARGS="--traces DIR --quick --seeds 1,2,3,4,5"
    make bench-routing ARGS="--traces DIR --quick --rows mixed-speeds,no-prefix --only 'headgate,DualMap'"
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from contest.capacity import SHARE, highest_rate
from contest.policies import ORACLES, OURS, POLICIES
from contest.replay import Replay, Result
from contest.replicas import Fleet
from contest.rows import PLAIN, ROWS, Row
from contest.standings import Standing, standings
from contest.stepped import Stepped
from headgate.simulator.fleet.summary import percentiles
from headgate.traffic import traces
from headgate.traffic.traces import TimedRequest

LOWEST_RATE, HIGHEST_RATE = 0.5, 20.0
QUICK_REQUESTS = 2000
STEPS, QUICK_STEPS = 9, 8
SHOWN = ("p50", "p90", "p99")

progress = Console(stderr=True)


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """A row: a trace on a fleet."""

    name: str
    requests: dict[int, list[TimedRequest]]
    """By the seed of their times."""
    fleet: Fleet
    fixed_rate: float
    """Requests per second at which hit rate and percentiles are measured."""
    target_s: float
    """For the first token."""
    ideal_hit_rate: float


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a policy in a cell."""

    policy: str
    cell: str
    highest_rate: float
    """Requests per second at which 90 % of first tokens are within the target: the mean over seeds."""
    highest_rates: list[float]
    """The same for each seed."""
    fixed_rate: float
    hit_rate: float
    of_ideal: float
    """The hit rate over that of one unlimited cache; 1 if nothing can be hit."""
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
    """The requests of a trace; those on a coarse time grid are spread evenly over it."""
    with path.open("rb") as lines:
        requests = list(traces.requests(path.name, lines, traces.Mooncake()))
    arrivals = traces.Arrivals(limit=limit, jitter_s=traces.grid_s(requests))
    return traces.arrange(requests, arrivals, random.Random(seed))


def ideal_hit_rate(requests: Sequence[TimedRequest]) -> float:
    """The hit rate of one unlimited cache, in blocks and including the last block, as in replicas."""
    seen: set[int] = set()
    hits = blocks = 0
    for request in requests:
        hits += next(
            (at for at, block in enumerate(request.prefix) if block not in seen), len(request.prefix)
        )
        blocks += len(request.prefix)
        seen.update(request.prefix)
    return hits / blocks


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of `--output json`."""

    scores: list[Score]
    standings: list[Standing]


def score(policy: str, cell: Cell, engine: str, steps: int) -> Score:
    """Each seed has its own bisection; hit rate and percentiles cover the requests of all seeds."""
    highest, fixed = zip(*(_seeded(policy, cell, engine, steps, seed) for seed in cell.requests), strict=True)
    ttfts_s = sorted(ttft_s for each in fixed for ttft_s in each.ttfts_s)
    ttft_s = percentiles(ttfts_s)
    hit_rate = statistics.mean(each.hit_rate for each in fixed)
    return Score(
        policy=policy,
        cell=cell.name,
        highest_rate=round(statistics.mean(highest), 2),
        highest_rates=[round(rate, 2) for rate in highest],
        fixed_rate=cell.fixed_rate,
        hit_rate=round(hit_rate, 4),
        of_ideal=round(hit_rate / cell.ideal_hit_rate, 3) if cell.ideal_hit_rate else 1.0,
        ttft_s={name: round(getattr(ttft_s, name), 3) for name in SHOWN},
        within_target=round(sum(each <= cell.target_s for each in ttfts_s) / len(ttfts_s), 4),
        decision_us=round(statistics.median(each.decision_us for each in fixed), 1),
    )


def _seeded(policy: str, cell: Cell, engine: str, steps: int, seed: int) -> tuple[float, Result]:
    """The highest rate with one seed, or 0 if there is none, and the result at the fixed rate."""
    requests = cell.requests[seed]
    usual_rate = traces.mean_rate(requests)

    def replay() -> Replay | Stepped:
        return ENGINES[engine](cell.fleet, POLICIES[policy], seed)

    def is_met(rate: float) -> bool:
        return replay().keeps(requests, rate / usual_rate, cell.target_s, SHARE)

    highest = highest_rate(is_met, LOWEST_RATE, HIGHEST_RATE, steps)
    return highest if highest > LOWEST_RATE else 0.0, replay().run(requests, cell.fixed_rate / usual_rate)


def table(cells: Sequence[Cell], scores: Sequence[Score]) -> Table:
    out = Table(box=box.MARKDOWN)
    out.add_column("policy")
    for cell in cells:
        out.add_column(f"{cell.name}: most req/s", justify="right")
        out.add_column(
            f"at {cell.fixed_rate:g}/s: in {cell.target_s:g} s, hits, TTFT p50/p90/p99", justify="right"
        )
    out.add_column("µs a decision", justify="right")
    for policy in dict.fromkeys(each.policy for each in scores):
        row = [policy]
        own = [each for each in scores if each.policy == policy]
        for each in own:
            ttft = "/".join(f"{seconds:.3g}" for seconds in each.ttft_s.values())
            most = f"{each.highest_rate:.1f}" if each.highest_rate else "never"
            row += [most, f"{each.within_target:.1%}, {each.hit_rate:.1%}, {ttft} s"]
        out.add_row(*row, f"{max(each.decision_us for each in own):.0f}")
    return out


def standings_of(scores: Sequence[Score]) -> list[Standing]:
    rates: dict[str, dict[str, float]] = {}
    for each in scores:
        rates.setdefault(each.policy, {})[each.cell] = each.highest_rate
    return standings(rates, OURS, list(ORACLES))


def standings_table(all_standings: Sequence[Standing]) -> Table:
    out = Table(box=box.MARKDOWN)
    for name in ("most req/s in", "first", "req/s", "second", "req/s", f"{OURS}", "to the first"):
        out.add_column(name, justify="left" if name in ("most req/s in", "first", "second") else "right")
    for each in all_standings:
        distance = f"{each.our_distance:+.1%}" if each.our_distance else "first"
        best, second, ours = (f"{rate:.2f}" for rate in (each.best_rate, each.second_rate, each.our_rate))
        out.add_row(each.cell, each.best, best, each.second, second, ours, distance)
    return out


@click.command()
@click.option(
    "--traces", "folder", type=click.Path(path_type=Path), required=True, help="Directory of the traces."
)
@click.option(
    "--trace", "chosen", default="conversation,synthetic", help="Traces to use, from mooncake_*.jsonl."
)
@click.option("--cache", "caches", default="6000,600", help="Cache blocks of 512 tokens per replica.")
@click.option(
    "--rows", "row_names", default=",".join(ROWS), help=f"Rows: {', '.join(ROWS)}.", show_default="all"
)
@click.option("--only", help="Names of policies. Default: all.")
@click.option("--engine", type=click.Choice(list(ENGINES)), default="first-order")
@click.option("--replicas", default=8, type=click.IntRange(1))
@click.option(
    "--prefill-rate", default=16_000.0, type=click.FloatRange(1.0), help="Tokens per second per replica."
)
@click.option("--steps", type=click.IntRange(1), help="Bisection steps. Default: 9, or 8 with --quick.")
@click.option("--quick", is_flag=True, help="Use only the first 2,000 requests of each trace.")
@click.option("--seeds", default="1", help="Seeds of jitter and ties: 1,2,3 for means over three runs.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table")
def main(**options: Any) -> None:
    """Replay traces with every policy and compare the rates that they sustain."""
    names = _names(options["only"], options["engine"])
    if unknown := [name for name in names if name not in POLICIES]:
        raise click.UsageError(f"--only: no policy {', '.join(unknown)}; there are {', '.join(POLICIES)}")
    if unknown := [name for name in options["row_names"].split(",") if name not in ROWS]:
        raise click.UsageError(f"--rows: no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    cells = _cells(options)
    steps = options["steps"] or (QUICK_STEPS if options["quick"] else STEPS)
    scores = []
    for name in names:
        for cell in cells:
            scores.append(score(name, cell, options["engine"], steps))
            progress.print(f"{name}, {cell.name}: {scores[-1].highest_rate:.2f} req/s", highlight=False)
    all_standings = standings_of(scores)
    if options["output"] == "json":
        report = Report(scores=scores, standings=all_standings)
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
        return
    console = Console(width=200 + 80 * len(cells))
    console.print(table(cells, scores))
    if all_standings:
        console.print(standings_table(all_standings))


def _names(only: str | None, engine: str) -> list[str]:
    if only is not None:
        return [name.strip() for name in only.split(",")]
    return [name for name in POLICIES if engine == "first-order" or name not in ORACLES]


def _cells(options: dict[str, Any]) -> list[Cell]:
    """The cells of each row, for each trace and cache size; without shared prefixes, the size makes no
    difference, and only the first one is used.
    """
    limit = QUICK_REQUESTS if options["quick"] else None
    plain: dict[str, dict[int, list[TimedRequest]]] = {}
    for trace in options["chosen"].split(","):
        path = options["folder"] / f"mooncake_{trace}.jsonl"
        if not path.is_file():
            raise click.UsageError(f"--traces: there is no {path}; docs/benchmarks.md says where to get it")
        plain[trace] = {seed: read(path, limit, seed) for seed in map(int, options["seeds"].split(","))}
    sizes = [int(blocks) for blocks in options["caches"].split(",")]
    cells = []
    for row in map(ROWS.__getitem__, options["row_names"].split(",")):
        for trace, plain_requests in plain.items():
            requests = {seed: row.requests(each) for seed, each in plain_requests.items()}
            for blocks in sizes if row.shares_prefixes else sizes[:1]:
                cells.append(_cell(row, trace, requests, blocks, options))
    return cells


def _cell(
    row: Row, trace: str, requests: dict[int, list[TimedRequest]], blocks: int, options: dict[str, Any]
) -> Cell:
    rate = FIXED_RATES.get((options["engine"], trace, blocks), USUAL_FIXED_RATE)
    name = f"{trace}, {blocks}"
    return Cell(
        name=name if row.name == PLAIN else f"{row.name}: {name}",
        requests=requests,
        fleet=row.fleet(Fleet(options["replicas"], options["prefill_rate"], blocks)),
        fixed_rate=rate * row.share_of_rate,
        target_s=row.target_s,
        ideal_hit_rate=ideal_hit_rate(next(iter(requests.values()))),
    )


if __name__ == "__main__":
    main()
