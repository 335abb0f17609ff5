"""What several pickers, or gateways, in front of one fleet lose against one, with and without sharing.

In virtual time, on stepped engines: the requests of a trace are dealt to the members in turn, so that each
sees a part of them and the next turn of a conversation goes to another one. With sharing, each member reports
its work and its prompts to the others once a period. docs/benchmarks.md has a table.

    .venv/bin/python bench/picker_ha.py --traces DIR
    .venv/bin/python bench/picker_ha.py --traces DIR --only "conversation 7/s" --periods 0.02,0.05
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click
import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from contest.replicas import Fleet
from contest.stepped import describe
from headgate.fleet.prefix import PrefixIndex
from headgate.flow.queue import FlowSettings
from headgate.scheduling import PredictedFirstToken
from headgate.simulator.fleet import FleetDescription, Slo
from headgate.simulator.fleet.members import Member, run_members
from headgate.simulator.fleet.sharing import Sharing
from headgate.traffic import traces
from headgate.traffic.traces import TimedRequest

SLO = Slo(ttft_s=2.0)
SCRAPE_S = 1.0
DELAY_S = 0.002
progress = Console(stderr=True)


class Case(NamedTuple):
    """A part of a trace at a rate."""

    name: str
    file: str
    rate: float
    requests: int = 2000
    cache_blocks: int = 6000
    is_queued: bool = False


CASES = (
    Case("conversation 7/s", "mooncake_conversation.jsonl", 7.0),
    Case("conversation 8/s", "mooncake_conversation.jsonl", 8.0),
    Case("conversation 8/s, with queue", "mooncake_conversation.jsonl", 8.0, is_queued=True),
    Case("conversation 5/s, small caches", "mooncake_conversation.jsonl", 5.0, cache_blocks=600),
    Case("synthetic 9/s", "mooncake_synthetic.jsonl", 9.0),
    Case("code, no shared prefixes, 12/s", "azure_2023_code.csv", 12.0),
)


class Setup(NamedTuple):
    """How many members, and how they share."""

    members: int
    period_s: float = 0.0
    """Between reports; 0 without sharing."""
    loss: float = 0.0

    @property
    def name(self) -> str:
        if not self.period_s:
            return str(self.members) if self.members == 1 else f"{self.members}, apart"
        lost = f", {self.loss:.0%} lost" if self.loss else ""
        return f"{self.members}, sharing every {self.period_s * 1e3:.0f} ms{lost}"


class Result(NamedTuple):
    attained: float
    hit_rate: float
    ttft_p90_s: float
    bytes_per_s: float
    """Reported by each member to each other one."""


def read(path: Path, case: Case, seed: int) -> list[TimedRequest]:
    known = traces.Mooncake() if path.suffix == ".jsonl" else traces.Azure()
    with path.open("rb") as lines:
        requests = list(traces.requests(path.name, lines, known))
    jitter_s = traces.grid_s(requests)
    arrivals = traces.Arrivals(limit=case.requests, jitter_s=jitter_s, rate_per_s=case.rate)
    return traces.arrange(requests, arrivals, random.Random(seed))


def fleet_of(case: Case) -> FleetDescription:
    description = describe(Fleet(8, 16_000.0, case.cache_blocks), SCRAPE_S)
    return msgspec.structs.replace(description, flow=FlowSettings() if case.is_queued else None)


def run(requests: Sequence[TimedRequest], case: Case, setup: Setup, seed: int) -> Result:
    indexes = [PrefixIndex() for _ in range(setup.members)]
    members = [Member(PredictedFirstToken(index), index) for index in indexes]
    sharing = None
    if setup.period_s:
        sharing = Sharing(setup.period_s, DELAY_S, setup.loss, random.Random(seed))
    records = run_members(iter(requests), fleet_of(case), members, seed=seed, sharing=sharing)
    firsts = sorted(record.ttft_s for record in records if record.ttft_s is not None)
    lasted_s = records[-1].arrived_s - records[0].arrived_s
    return Result(
        sum(map(SLO.is_met, records)) / len(records),
        sum(record.cached_tokens for record in records) / sum(record.prompt_tokens for record in records),
        firsts[len(firsts) * 9 // 10],
        sharing.sent_bytes / setup.members / lasted_s if sharing is not None else 0.0,
    )


@click.command()
@click.option("--traces", "folder", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--only", help="Names of cases, separated by semicolons. Default: all.")
@click.option("--members", "counts", default="4", help="Numbers of members to compare with one.")
@click.option("--periods", default="0.02", help="Seconds between reports.")
@click.option("--losses", default="0", help="Shares of reports that get lost.")
@click.option("--seeds", default="1", help="Results are means over these.")
def main(folder: Path, only: str | None, counts: str, periods: str, losses: str, seeds: str) -> None:
    """Compare the share of first tokens within 2 s."""
    chosen = [each.strip() for each in only.split(";")] if only else [case.name for case in CASES]
    if unknown := set(chosen) - {case.name for case in CASES}:
        raise click.UsageError(f"--only: no case {', '.join(unknown)}")
    setups = [Setup(1)]
    for count in map(int, counts.split(",")):
        setups.append(Setup(count))
        for period_s in map(float, periods.split(",")):
            setups += [Setup(count, period_s, loss) for loss in map(float, losses.split(","))]
    table = Table(box=box.MARKDOWN)
    for column in ("case", "members"):
        table.add_column(column)
    for column in ("in 2 s", "points below one", "hits", "TTFT p90", "KB/s to each"):
        table.add_column(column, justify="right")
    for case in (case for case in CASES if case.name in chosen):
        one = 0.0
        for setup in setups:
            results = [
                run(read(folder / case.file, case, seed), case, setup, seed)
                for seed in map(int, seeds.split(","))
            ]
            attained, hits, p90_s, per_s = (statistics.mean(column) for column in zip(*results, strict=True))
            one = attained if setup.members == 1 else one
            below = f"{100 * (one - attained):.1f}" if setup.members > 1 else ""
            sent = f"{per_s / 1e3:.0f}" if per_s else ""
            row = f"{attained:.1%}", below, f"{hits:.1%}", f"{p90_s:.2f} s", sent
            progress.print(case.name, setup.name, *row, highlight=False)
            table.add_row(case.name, setup.name, *row)
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
