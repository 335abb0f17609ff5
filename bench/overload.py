"""The effect of a queue in front of an overloaded fleet, in virtual time.

The same requests on the same engines, sent immediately or held until there is capacity. A tenth of them is
critical, three tenths are sheddable; none are rejected, so that both serve the same. docs/flow-control.md has
the table. A second one, in docs/benchmarks.md, has the throughput of clients in closed loops: the lower share
of requests and tokens or, for unlike requests, their work. With `--live`, some of its rows run over HTTP and
in real time, with a process for each engine, alternating with and without the queue.

    python bench/overload.py
    python bench/overload.py --part 0.2
    python bench/overload.py --only closed-loops
    python bench/overload.py --only closed-loops --rows embeddings
    python bench/overload.py --live --repeat 3
"""

from __future__ import annotations

import random
import signal
import statistics
import sys
from collections.abc import Sequence
from typing import NamedTuple

import click
import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

import closed_loops
from headgate import scheduling
from headgate.fleet.prefix import PrefixIndex
from headgate.flow.queue import FlowSettings
from headgate.simulator.fleet import EngineGroup, FleetDescription, FleetRun, run_fleet
from headgate.simulator.model import PROFILES, EngineConfig
from headgate.traffic.traces import TimedRequest
from headgate.traffic.workloads import Chat, SharedPrefix
from headgate.traffic.workloads.workload import Workload
from live import loops

ENGINE = PROFILES["8b-h100"].config
PRIORITIES, SHARES = (1, 0, -1), (0.1, 0.6, 0.3)
ENDLESS = FlowSettings(ttl_s=0, max_requests=0, max_bytes=0)

progress = Console(stderr=True)


class Case(NamedTuple):
    name: str
    workload: Workload
    groups: tuple[EngineGroup, ...]


def engines(count: int, engine: EngineConfig = ENGINE) -> tuple[EngineGroup, ...]:
    return (EngineGroup(name="e", engine=engine, count=count),)


CASES = (
    Case(
        "long prompts",
        SharedPrefix(
            requests=2500, rate=26, prefixes=60, prefix_tokens=2000, question_tokens=500, output_tokens=150
        ),
        engines(4),
    ),
    Case(
        "long answers, batches of 64",
        SharedPrefix(
            requests=3000, rate=40, prefixes=30, prefix_tokens=128, question_tokens=100, output_tokens=300
        ),
        engines(4, msgspec.structs.replace(ENGINE, max_num_seqs=64)),
    ),
    Case("conversations", Chat(requests=1500, rate=20), engines(2)),
    Case(
        "prefill and decode apart",
        SharedPrefix(
            requests=1200, rate=16, prefixes=40, prefix_tokens=2000, question_tokens=500, output_tokens=150
        ),
        (
            EngineGroup(name="p", engine=ENGINE, count=2, role="prefill"),
            EngineGroup(name="d", engine=ENGINE, count=2, role="decode"),
        ),
    ),
)


def requests_of(workload: Workload, part: float) -> list[TimedRequest]:
    """Requests with priorities; all requests of a conversation have the same."""
    workload = msgspec.structs.replace(workload, requests=max(round(workload.requests * part), 1))
    told, chance = [], random.Random(5)
    for request in workload.generate(random.Random(3)):
        by = chance if request.session < 0 else random.Random(request.session)
        told.append(msgspec.structs.replace(request, priority=by.choices(PRIORITIES, SHARES)[0]))
    return told


def served(case: Case, requests: Sequence[TimedRequest], flow: FlowSettings | None) -> FleetRun:
    prefixes = PrefixIndex()
    description = FleetDescription(groups=case.groups, scrape_s=1.0, flow=flow)
    policy = scheduling.PredictedFirstToken(prefixes)
    return run_fleet(iter(requests), description, policy, seed=1, prefixes=prefixes)


def row(case: Case, queue: str, run: FleetRun) -> list[str]:
    ends = sorted(record.ended_s for record in run.records)
    cells = [case.name, queue, f"{ends[-1]:.1f} s", f"{ends[len(ends) * 9 // 10]:.1f} s"]
    cells.append(f"{run.summary().hit_rate:.1%}")
    for priority, share in ((1, 0.5), (1, 0.95), (0, 0.5), (-1, 0.5)):
        first = sorted(
            record.ttft_s
            for record in run.records
            if record.priority == priority and record.ttft_s is not None
        )
        cells.append(f"{first[int(len(first) * share)]:.2f} s")
    return cells


def priorities(part: float) -> Table:
    """When all and nine tenths are served, hits, and times to first token by priority."""
    table = Table(box=box.SIMPLE)
    for column in ("traffic", "queue"):
        table.add_column(column)
    for column in ("all served", "90 %", "hits", "critical p50", "p95", "default p50", "sheddable p50"):
        table.add_column(column, justify="right")
    for case in CASES:
        requests = requests_of(case.workload, part)
        for queue, flow in (("none", None), ("headgate", ENDLESS)):
            table.add_row(*row(case, queue, served(case, requests, flow)))
    return table


def throughput(mixes: Sequence[closed_loops.Mix], seed: int) -> Table:
    """Throughput of clients in closed loops, after a quiet time."""
    table = loops_table(("critical p50, p95 without", "with"))
    for mix in mixes:
        without = closed_loops.served(mix, None, seed=seed)
        queued = closed_loops.served(mix, ENDLESS, seed=seed)
        table.add_row(*compared(mix, without, queued), first_bytes(without), first_bytes(queued))
    return table


def over_http(mixes: Sequence[closed_loops.Mix], repeat: int, seed: int) -> Table:
    """The same with processes, alternating with and without the queue; the median of each."""
    table = loops_table(("lowest, highest", "in virtual time", "CPUs", "gateway"))
    runs: dict[tuple[str, bool], list[loops.Ran]] = {}
    for number in range(repeat):
        for mix in mixes:
            for is_queued in (number % 2 == 0, number % 2 == 1):
                ran = loops.run(mix, is_queued=is_queued, engines=closed_loops.ENGINES, seed=seed + number)
                runs.setdefault((mix.name, is_queued), []).append(ran)
                queue = "with" if is_queued else "without"
                progress.print(f"[dim]{mix.name}, {queue} the queue: {ran.served.per_s:.1f} requests/s")
    for mix in mixes:
        queued, without = (runs[mix.name, is_queued] for is_queued in (True, False))
        shares = [each.served.share_of(other.served) for each, other in zip(queued, without, strict=True)]
        virtual = closed_loops.share(mix, *(closed_loops.served(mix, flow) for flow in (ENDLESS, None)))
        both = queued + without
        table.add_row(
            *compared(mix, median(without), median(queued), sum(each.failed for each in both)),
            f"{min(shares):.1%}, {max(shares):.1%}",
            f"{virtual:.1%}",
            f"{max(each.cores for each in both):.2f}",
            f"{max(each.gateway_cores for each in both):.2f}",
        )
    return table


def loops_table(further: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE)
    table.add_column("clients", no_wrap=True)
    for column in ("requests/s without", "with", "tokens/s without", "with", "share", *further):
        table.add_column(column, justify="right")
    return table


def compared(
    mix: closed_loops.Mix, without: closed_loops.Served, queued: closed_loops.Served, failed: int = 0
) -> list[str]:
    share = closed_loops.share(mix, queued, without)
    return [
        f"{mix.name} ({failed} failed)" if failed else mix.name,
        f"{without.per_s:.1f}",
        f"{queued.per_s:.1f}",
        f"{without.tokens_per_s:,.0f}",
        f"{queued.tokens_per_s:,.0f}",
        f"{share:.1%}" if share >= closed_loops.MIN_SHARE else f"[red]{share:.1%}",
    ]


def first_bytes(served: closed_loops.Served) -> str:
    if served.critical_p50_s is None or served.critical_p95_s is None:
        return ""
    return f"{served.critical_p50_s:.2f} s, {served.critical_p95_s:.2f} s"


def median(runs: Sequence[loops.Ran]) -> closed_loops.Served:
    per_s = statistics.median(each.served.per_s for each in runs)
    return closed_loops.Served(per_s, statistics.median(each.served.tokens_per_s for each in runs))


@click.command(help=__doc__)
@click.option(
    "--part", type=click.FloatRange(0.01, 1.0), default=1.0, help="Fraction of the first table's traffic."
)
@click.option("--only", type=click.Choice(["priorities", "closed-loops"]), help="Print only this table.")
@click.option("--rows", default="", help="Only closed loops whose name contains this.")
@click.option("--live", "is_live", is_flag=True, help="Closed loops over HTTP, in real time.")
@click.option(
    "--repeat", type=click.IntRange(1), default=3, show_default=True, help="Repetitions per live row."
)
@click.option("--seed", default=1, show_default=True, help="Seed of the closed loops.")
def main(part: float, only: str | None, rows: str, is_live: bool, repeat: int, seed: int) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwind, so that every started process ends
    console = Console(width=170)
    among = closed_loops.STORY if is_live else closed_loops.MIXES
    mixes = [mix for mix in among if rows in mix.name]
    if is_live:
        console.print(over_http(mixes, repeat, seed))
        return
    if only != "closed-loops":
        console.print(priorities(part))
    if only != "priorities":
        console.print(throughput(mixes, seed))


if __name__ == "__main__":
    main()
