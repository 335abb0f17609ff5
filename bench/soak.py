"""Soak: half of the capacity for minutes, on engines that fail, while objects change and workers are killed.

    python bench/soak.py --minutes 10

Prints a line every few seconds and a table at the end, and exits with status 1 if anything is unexplained: a
response that is missing, wrong, or cut without a reason in the access log; a request with no line or with
two; growing memory or open files; work in the ledger after the last response.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import uvloop
from rich.console import Console
from rich.table import Table

import cpu
from soak_clients import Clients, Result
from soak_rig import Rig

CALIBRATION_S = 4.0
PROGRESS_EVERY_S = 5.0
SAMPLE_EVERY_S = 1.0
KILL_AFFECTS_S = 2.0
"""A killed worker loses unwritten lines of the access log, and requests on its connections for a while."""
QUIET_WITHIN_S = 30.0
MEMORY_OF_A_FILE_KB = 20
"""Allowed memory for each connection above the previous maximum: its buffers, parser and exchange."""
MEMORY_GROWTH = 0.03
MEMORY_NOISE_KB = 3 * 1024
"""Allowed growth in the second half: allocators and caches reach their size in the first half of a run."""
FILES_GROWTH = 8
"""Open files of an idle worker: sockets of the admin page come and go."""

BROKEN = frozenset({"upstream_lost", "upstream_invalid", "idle_timeout"})
"""Outcomes in the access log that explain why a response has no end."""


@dataclass
class Samples:
    """Samples of the worker that is never killed: time, resident memory, open files."""

    pid: int
    at: list[float] = field(default_factory=list)
    memory_kb: list[float] = field(default_factory=list)
    files: list[int] = field(default_factory=list)

    def take(self) -> None:
        self.at.append(time.monotonic())
        self.memory_kb.append(cpu.memory_kb(self.pid))
        self.files.append(open_files(self.pid))

    def new_files(self) -> int:
        """How many more files were open at once in the second half than ever in the first."""
        half = len(self.files) // 2
        return max(0, max(self.files[half:]) - max(self.files[:half]))

    def growth_kb(self) -> float:
        """From the median of the third quarter to that of the last."""
        half, end = len(self.memory_kb) // 2, len(self.memory_kb)
        middle = (half + end) // 2
        return statistics.median(self.memory_kb[middle:]) - statistics.median(self.memory_kb[half:middle])


@dataclass
class Line:
    """The access log's entry for one request."""

    status_code: int
    outcome: str
    lines: int = 1


class _Logged(msgspec.Struct):
    request_id: str
    status_code: int
    outcome: str
    upstream_attempts: int


@dataclass
class Finding:
    """One row of the table: what was checked, the result, and whether it is good."""

    what: str
    found: str
    is_well: bool = True


def main() -> None:
    options = parsed()
    seconds = options.seconds or options.minutes * 60
    console = Console(width=120)
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch:
        rig = Rig(Path(scratch), options.workers, options.engines, options.faults)
        with rig:
            findings = uvloop.run(soak(rig, seconds, options))
    table = Table(title=f"Soak of {seconds:g} s", title_justify="left")
    for heading in ("", "found", ""):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        table.add_row(finding.what, finding.found, "ok" if finding.is_well else "[bold red]FAILED")
    console.print(table)
    sys.exit(0 if all(finding.is_well for finding in findings) else 1)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Serve, for minutes, on engines that fail.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=0.0, help="instead of --minutes")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--engines", type=int, default=4)
    parser.add_argument("--faults", type=float, default=0.1, help="share of requests that an engine fails")
    parser.add_argument(
        "--rate", type=float, default=0.0, help="requests per second; 0 is half of the capacity"
    )
    parser.add_argument("--kill-every", type=float, default=20.0, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


async def soak(rig: Rig, seconds: float, options: argparse.Namespace) -> list[Finding]:
    clients = Clients(rig.port, random.Random(options.seed))
    rate = options.rate
    if not rate:
        rate = await clients.capacity_per_s(CALIBRATION_S) / 2
        say(f"capacity with these clients and engines: {2 * rate:.0f} requests a second; half of it is asked")
        clients.counts.clear()
    samples = Samples((await rig.worker_pids())[0])
    await quiet(rig, clients)
    files_before = open_files(samples.pid)
    background = [
        asyncio.create_task(rig.reload_every(1.0)),
        asyncio.create_task(kill_every(rig, options.kill_every, samples.pid)),
        asyncio.create_task(watch(rig, clients, samples)),
    ]
    await clients.at_rate(rate, seconds)
    for task in background:
        task.cancel()
    ended = await asyncio.gather(*background, return_exceptions=True)
    await clients.end()
    left = await quiet(rig, clients)
    broken = [f"{error!r}" for error in ended if not isinstance(error, asyncio.CancelledError)]
    lines = await read_log(rig.access_log)
    changes = f"{rig.reloads} changes of objects, {len(rig.kills)} workers killed"
    return [
        Finding(
            "asked", f"{clients.counts.total():,} at {rate:.0f} a second; {clients.not_asked} more were due"
        ),
        Finding("ended", clients.told()),
        Finding("meanwhile", changes, not broken),
        *unexplained(clients.results, lines, rig.kills),
        *grown(samples, files_before),
        Finding("left in the books", left or "nothing", not left),
        *[Finding("the soak itself", error, False) for error in broken],
    ]


def say(text: str) -> None:
    print(text, flush=True)


async def kill_every(rig: Rig, seconds: float, keep: int) -> None:
    while True:
        await asyncio.sleep(seconds)
        await rig.kill_a_worker(keep)


async def watch(rig: Rig, clients: Clients, samples: Samples) -> None:
    """Take a sample each second, and print progress."""
    began = told = time.monotonic()
    while True:
        await asyncio.sleep(SAMPLE_EVERY_S)
        samples.take()
        now = time.monotonic()
        if now - told >= PROGRESS_EVERY_S:
            told = now
            worker = f"{samples.memory_kb[-1] / 1024:.1f} MB, {samples.files[-1]} files"
            done = f"{rig.reloads} changes, {len(rig.kills)} killed"
            say(f"{now - began:4.0f} s  {clients.told()}; {clients.running} waiting; {worker}; {done}")


async def quiet(rig: Rig, clients: Clients) -> str:
    """Wait until the gateway is idle; returns the remaining work if it does not become idle."""
    await clients.end()
    deadline = time.monotonic() + QUIET_WITHIN_S
    while True:
        requests = (await rig.page("/debug/requests"))["total"]
        pools = await rig.page("/debug/endpoints")
        owed = [
            f"{each['name']}: {each['requests']} requests, {each['work_tokens']} tokens"
            for pool in pools.values()
            for each in pool
            if each["requests"] or each["work_tokens"]
        ]
        open_ = sum(each["connections"]["open"] for pool in pools.values() for each in pool)
        if not requests and not owed and not open_:
            return ""
        if time.monotonic() > deadline:
            return f"{requests} requests in flight, {open_} connections; {'; '.join(owed)}"
        await asyncio.sleep(0.5)


async def read_log(path: Path) -> dict[str, Line]:
    """The lines of the access log by request, once it is written."""
    await asyncio.sleep(1.0)
    decode = msgspec.json.Decoder(_Logged).decode
    lines: dict[str, Line] = {}
    with path.open("rb") as file:
        for raw in file:
            try:
                logged = decode(raw)
            except msgspec.DecodeError:  # the last line of a worker killed during a write
                continue
            known = lines.get(logged.request_id)
            if known is not None:
                known.lines += 1
            else:
                lines[logged.request_id] = Line(logged.status_code, logged.outcome)
    return lines


def unexplained(results: list[Result], lines: dict[str, Line], kills: list[float]) -> list[Finding]:
    """Compare what clients saw with the access log, request by request."""
    problems: Counter[str] = Counter()
    examples: dict[str, str] = {}
    by_kills = 0
    for result in results:
        problem = explain(result, lines.get(result.name))
        if problem is None:
            continue
        if result.how not in ("wrong", "missing") and any(
            result.began - KILL_AFFECTS_S <= kill <= result.ended + KILL_AFFECTS_S for kill in kills
        ):
            by_kills += 1
            continue
        problems[problem] += 1
        example = f"{result.name} {result.how} {result.status} {result.detail} after {result.took_s:.3f} s"
        examples.setdefault(problem, example)
    told = [f"{count} {problem} ({examples[problem]})" for problem, count in problems.items()]
    twice = sum(line.lines > 1 for line in lines.values())
    return [
        Finding("explained by a killed worker", f"{by_kills}"),
        Finding(
            "unexplained",
            "; ".join(told) or "none",
            not problems,
        ),
        Finding("requests with two lines in the access log", f"{twice}", not twice),
    ]


def explain(result: Result, line: Line | None) -> str | None:
    """The difference between the client's view and the log's; None if they agree."""
    if result.how in ("wrong", "missing"):
        return result.how
    if line is None:
        return f"{result.how} without a line in the access log"
    if result.how == "served" and (line.status_code, line.outcome) != (200, "served"):
        return f"served, logged as {line.status_code} {line.outcome}"
    if result.how == "refused" and line.status_code != result.status:
        return f"refused with {result.status}, logged as {line.status_code}"
    if result.how in ("told", "cut") and line.outcome not in BROKEN:
        return f"{result.how}, logged as {line.outcome}"
    return None


def grown(samples: Samples, files_before: int) -> list[Finding]:
    memory_kb, growth_kb = samples.memory_kb, samples.growth_kb()
    limit_kb = max(MEMORY_NOISE_KB, MEMORY_GROWTH * statistics.median(memory_kb))
    limit_kb += MEMORY_OF_A_FILE_KB * samples.new_files()
    files = open_files(samples.pid)
    return [
        Finding(
            "memory of a worker",
            f"{memory_kb[0] / 1024:.1f} MB at first, {memory_kb[-1] / 1024:.1f} MB at last; from the third "
            f"quarter to the last {growth_kb / 1024:+.2f} MB (limit {limit_kb / 1024:.1f})",
            growth_kb <= limit_kb,
        ),
        Finding(
            "open files of a worker",
            f"{files_before} before, at most {max(samples.files)} amid, {files} after",
            files <= files_before + FILES_GROWTH,
        ),
    ]


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


if __name__ == "__main__":
    main()
