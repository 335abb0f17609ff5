"""Soak of failing engines: does the gateway hide their failures from clients as well as possible?

    python bench/soak_health.py --minutes 10

Simulated engines, each a process, fail at random: they return 401, 403, 404, 429 or 5xx, with and without
Retry-After, are stopped, crash, are slow, or lack an adapter; at most half of them at a time. Each request is
sent twice at its time: through the gateway, which has to detect failures, and by an ideal picker that knows
them. Prints a table; exits with status 1 if the gateway's clients saw more failures than the picker's, by
more than one in a hundred requests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console
from rich.table import Table

import health_clients
import health_faults
from health_clients import Seen
from health_rig import Engine, Rig

BOUND_PERCENT = 1.0
PROGRESS_EVERY_S = 30.0
KINDS_SHOWN = 6
NONE = "none"

progress = Console(stderr=True, width=120)


def main() -> None:
    options = parsed()
    seconds = options.seconds or options.minutes * 60
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch:
        result = uvloop.run(soak(Path(scratch), seconds, options))
    if options.output == "json":
        print(json.dumps(result, indent=1))
    else:
        show(result)
    sys.exit(0 if result["is_well"] else 1)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=0.0, help="instead of --minutes")
    parser.add_argument("--seed", type=int, default=1, help="seed of faults and requests")
    parser.add_argument("--engines", type=int, default=4)
    parser.add_argument("--rate", type=float, default=15.0, help="requests per second, each sent twice")
    parser.add_argument("--output", choices=["table", "json"], default="table")
    return parser.parse_args()


async def soak(scratch: Path, seconds: float, options: argparse.Namespace) -> dict[str, Any]:
    episodes = health_faults.drawn(options.seed, seconds, options.engines)
    asked = health_clients.requests(options.seed, options.rate, seconds)
    async with Rig(scratch, options.engines) as rig:
        began = asyncio.get_running_loop().time()
        failing = [asyncio.create_task(fail(rig.engines[each.engine], each, began)) for each in episodes]
        gateway: list[Seen] = []
        picker: list[Seen] = []
        telling = asyncio.create_task(tell(began, seconds, gateway, picker))
        try:
            await ask(rig, asked, began, gateway, picker)
            await asyncio.gather(*failing)
        finally:
            for task in (telling, *failing):
                task.cancel()
        ejections = await rig.counts("headgate_gateway_ejections", "reason")
        failed = await rig.counts("headgate_gateway_attempts_failed", "reason")
    return summary(seconds, options, episodes, gateway, picker) | {
        "ejections": ejections,
        "attempts_failed": failed,
    }


async def fail(engine: Engine, episode: health_faults.Episode, began: float) -> None:
    now = asyncio.get_running_loop().time
    await asyncio.sleep(began + episode.at_s - now())
    await engine.begin(episode.kind)
    await asyncio.sleep(began + episode.until_s - now())
    await engine.end()


async def ask(
    rig: Rig,
    asked: Sequence[health_clients.Request],
    began: float,
    gateway: list[Seen],
    picker: list[Seen],
) -> None:
    """Send each request at its time, both ways; returns when all are over."""
    now = asyncio.get_running_loop().time
    async with asyncio.TaskGroup() as group:
        for request in asked:
            await asyncio.sleep(began + request.at_s - now())
            first = group.create_task(health_clients.through_gateway(rig.port, request, began))
            second = group.create_task(health_clients.told_the_truth(rig.engines, request, began))
            first.add_done_callback(lambda task: gateway.append(task.result()))
            second.add_done_callback(lambda task: picker.append(task.result()))


async def tell(began: float, seconds: float, gateway: list[Seen], picker: list[Seen]) -> None:
    while True:
        await asyncio.sleep(PROGRESS_EVERY_S)
        at_s = asyncio.get_running_loop().time() - began
        failures = [sum(not each.is_served for each in seen) for seen in (gateway, picker)]
        progress.print(
            f"{at_s:4.0f} of {seconds:g} s  {len(gateway)} requests, failed through the gateway: "
            f"{failures[0]}, by a picker that is told the truth: {failures[1]}"
        )


# -- results


def summary(
    seconds: float,
    options: argparse.Namespace,
    episodes: Sequence[health_faults.Episode],
    gateway: Sequence[Seen],
    picker: Sequence[Seen],
) -> dict[str, Any]:
    names = [kind.name for kind in health_faults.KINDS]
    rows = [_row(name, episodes, gateway, picker) for name in (*names, NONE)]
    failed = [sum(not each.is_served for each in seen) for seen in (gateway, picker)]
    percent = [100 * count / max(len(gateway), 1) for count in failed]
    return {
        "seconds": seconds,
        "seed": options.seed,
        "engines": options.engines,
        "rate": options.rate,
        "faults": len(episodes),
        "requests": len(gateway),
        "gateway_failed": failed[0],
        "picker_failed": failed[1],
        "gateway_percent": round(percent[0], 3),
        "picker_percent": round(percent[1], 3),
        "more_percent": round(percent[0] - percent[1], 3),
        "bound_percent": BOUND_PERCENT,
        "is_well": percent[0] - percent[1] <= BOUND_PERCENT,
        "rows": rows,
        "gateway_saw": dict(Counter(each.how for each in gateway if not each.is_served).most_common()),
        "picker_saw": dict(Counter(each.how for each in picker if not each.is_served).most_common()),
        "slowest_s": [
            round(max((each.ended_s - each.began_s for each in seen if each.is_served), default=0.0), 2)
            for seen in (gateway, picker)
        ],
    }


def _row(
    name: str, episodes: Sequence[health_faults.Episode], gateway: Sequence[Seen], picker: Sequence[Seen]
) -> dict[str, Any]:
    """Results of requests in progress while an engine failed in this way, or while none failed at all."""
    mine = [each for each in episodes if name in (NONE, each.kind.name)]

    def concerns(seen: Seen) -> bool:
        is_amid = any(each.at_s < seen.ended_s and seen.began_s < each.until_s for each in mine)
        return is_amid != (name == NONE)

    counted = [[each for each in seen if concerns(each)] for seen in (gateway, picker)]
    return {
        "fault": name,
        "times": 0 if name == NONE else len(mine),
        "seconds": 0 if name == NONE else round(sum(each.until_s - each.at_s for each in mine)),
        "requests": len(counted[0]),
        "gateway_failed": sum(not each.is_served for each in counted[0]),
        "picker_failed": sum(not each.is_served for each in counted[1]),
    }


def show(result: dict[str, Any]) -> None:
    title = (
        f"{result['requests']:,} requests in {result['seconds']:g} s to {result['engines']} engines, "
        f"{result['faults']} faults, seed {result['seed']}"
    )
    table = Table(title=title, title_justify="left")
    table.add_column("fault")
    for heading in ("times", "seconds", "requests meanwhile", "failed: gateway", "told the truth"):
        table.add_column(heading, justify="right")
    keys = ("times", "seconds", "requests", "gateway_failed", "picker_failed")
    for row in result["rows"]:
        table.add_row(row["fault"], *(f"{row[key]:,}" for key in keys))
    table.add_section()
    failed = [
        f"{result[f'{who}_failed']} ({result[f'{who}_percent']:.2f} %)" for who in ("gateway", "picker")
    ]
    table.add_row("all", f"{result['faults']}", "", f"{result['requests']:,}", *failed)
    console = Console(width=120)
    console.print(table)
    for what, key in (
        ("failures of the gateway's clients", "gateway_saw"),
        ("failures of the picker's", "picker_saw"),
        ("endpoints ejected, by the last failure", "ejections"),
        ("attempts that failed", "attempts_failed"),
    ):
        console.print(f"{what}: {_counted(result[key])}", highlight=False)
    slowest = " and ".join(f"{each:g} s" for each in result["slowest_s"])
    console.print(f"the slowest that were served, gateway and told the truth: {slowest}", highlight=False)
    verdict = "ok" if result["is_well"] else "FAILED"
    console.print(
        f"{result['more_percent']:+.2f} points of failures more than with the truth told; at most "
        f"{result['bound_percent']:g}: {verdict}",
        highlight=False,
    )


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


if __name__ == "__main__":
    main()
