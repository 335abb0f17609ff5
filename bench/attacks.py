"""How attacks affect other clients: a victim's latency, memory and failed requests, in one table.

Clients, engines, authors of objects and holders of tokens attack a fresh install, one kind of attack at a
time. During each attack, a client sends small requests at a steady rate. docs/limits.md describes the limits
for each kind, and docs/benchmarks.md how to read the table.

    make bench-attacks
    make bench-attacks ARGS="--only bodies --seconds 4"
    make bench-attacks ARGS=--record

Exits with status 1 if the victim's p99 rose by more than 50 ms, one of its requests failed, or memory
exceeded the documented limit.
"""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import uvloop
from rich.console import Console
from rich.table import Table

import cpu
import own_processes
import proxies
from attack import ATTACKS, Attack, Rig, Subject, Victim
from attack.target import Target
from gateway import commit

RESULTS = Path(__file__).with_name("results") / "attacks.jsonl"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
BEGINS, ENDS = "<!-- the table of attacks begins -->\n", "<!-- the table of attacks ends -->\n"
MAY_ADD_MS = 50.0
"""How much the victim's p99 may rise above that of the quiet window before the attack."""
LEAST_ATTACK_S = 0.5
QUIET_S = 2.5
BEGINS_WITHIN_S = 60.0
ENDS_WITHIN_S = 60.0

progress = Console(stderr=True)


@dataclass(frozen=True)
class Window:
    """One attack on one subject, with one victim."""

    subject: str
    outcomes: dict[str, int]
    """The responses that the attacker got."""
    quiet_p99_ms: float
    attacked_p99_ms: float
    slowest_ms: float
    asked: int
    failures: list[str]
    memory_mb: float
    peak_mb: float
    cpu_s: float
    """CPU time of the process under attack during the window."""
    attacker_cpu_s: float
    seconds: float

    @property
    def added_ms(self) -> float:
        return self.attacked_p99_ms - self.quiet_p99_ms


@dataclass(frozen=True)
class Row:
    """The result of one attack."""

    attack: str
    bound_mb: float
    ours: Window
    control: Window
    """The victim uses an engine, and the attacker a server that does nothing: latency added here is caused by
    the machine or the load generator.
    """
    peer: Window | None = None
    no_peer: str = ""
    """Why there is none, although the attack names one."""

    @property
    def is_well(self) -> bool:
        ours = self.ours
        return ours.added_ms <= MAY_ADD_MS and not ours.failures and ours.peak_mb <= self.bound_mb

    @property
    def verdict(self) -> str:
        if self.is_well:
            return "ok"
        return "HARMED, and the control" if self.control.added_ms > MAY_ADD_MS else "HARMED"


@click.command(help=__doc__)
@click.option("--only", multiple=True, help="Only attacks whose name contains this; repeatable.")
@click.option("--seconds", default=5.0, show_default=True, help="Seconds per attack.")
@click.option("--list", "only_names", is_flag=True, help="Print the names of the attacks.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--no-peers", is_flag=True, help="Attack Headgate alone.")
@click.option(
    "--record",
    is_flag=True,
    help=f"Append the run to results/{RESULTS.name}, and rewrite the table in docs/{PAGE.name}.",
)
def main(
    only: tuple[str, ...], seconds: float, only_names: bool, output: str, no_peers: bool, record: bool
) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwind, so that every started process ends
    chosen = [attack for attack in ATTACKS if not only or any(part in attack.name for part in only)]
    if only_names:
        click.echo("\n".join(attack.name for attack in chosen))
        return
    if not chosen:
        raise click.BadParameter(
            f"no attack has {' or '.join(only)} in its name: see --list", param_hint="--only"
        )
    if record and (only or no_peers):
        raise click.BadParameter(
            "a run is recorded whole, without --only and --no-peers", param_hint="--record"
        )
    began = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "load": os.getloadavg()[0],
    }
    with tempfile.TemporaryDirectory(prefix="attacks-") as scratch, Rig(Path(scratch)) as rig:
        rows = [uvloop.run(attacked(rig, attack, seconds, no_peers)) for attack in chosen]
    if output == "json":
        click.echo(json.dumps([asdict(row) for row in rows], indent=4))
    else:
        Console(width=220).print(table(rows))
    if record:
        run = {
            **began,
            "machine": cpu.machine(),
            "seconds": seconds,
            "rows": [asdict(row) for row in rows],
        }
        RESULTS.parent.mkdir(exist_ok=True)
        with RESULTS.open("a") as file:
            file.write(json.dumps(run) + "\n")
        PAGE.write_text(with_table(PAGE.read_text(), run))
    sys.exit(0 if all(row.is_well for row in rows) else 1)


async def attacked(rig: Rig, attack: Attack, seconds: float, no_peers: bool = False) -> Row:
    """Run one attack on Headgate, on the control, and on its peer."""
    seconds = max(seconds, attack.least_s)
    progress.print(f"[dim]{attack.name} ...", end=" ")
    if attack.prepare is not None:
        await attack.prepare(str(rig.kubeconfig))
    ours = await window(rig[attack.of], attack, seconds)
    control = await window(rig["control"], attack, seconds)
    peer, missing = None, ""
    if attack.peer and not no_peers:
        try:
            with rig.peer(attack.peer) as subject:
                peer = await window(subject, attack, seconds)
        except proxies.UnavailableError as error:
            missing = f"{attack.peer}: {error}"
    row = Row(attack.name, attack.memory_mb, ours, control, peer, missing)
    progress.print(f"[dim]{ours.added_ms:+.1f} ms, {row.verdict}")
    return row


async def window(subject: Subject, attack: Attack, seconds: float) -> Window:
    """Run one attack with one victim, whose latency is first measured without the attack."""
    victim = Victim(subject.victim, subject.path)
    await victim.connect()
    await victim.ask(0.5)
    quiet = await victim.ask(QUIET_S)
    memory_mb = cpu.memory_kb(subject.pid) / 1024
    cpu.forget_peak(subject.pid)
    before_s = cpu.cpu_seconds(subject.pid)
    with _Attacker(attack) as attacker:
        began = time.monotonic()
        attacker.begin(subject.target, began + seconds)
        during = await victim.ask(seconds)
        cpu_s, lasted_s = cpu.cpu_seconds(subject.pid) - before_s, time.monotonic() - began
        outcomes, attacker_cpu_s = attacker.outcomes()
    peak_mb = cpu.peak_memory_mb(subject.pid)
    victim.close()
    return Window(
        subject.name,
        dict(outcomes.most_common()),
        round(quiet.percentile(0.99), 1),
        round(during.percentile(0.99), 1),
        round(max(during.ms, default=float("nan")), 1),
        len(during.ms) + len(during.failures),
        [*quiet.failures, *during.failures],
        round(memory_mb),
        round(peak_mb),
        round(cpu_s, 2),
        round(attacker_cpu_s, 2),
        round(lasted_s, 1),
    )


class _Attacker:
    """The process of an attack. A context manager: the process ends with it."""

    def __init__(self, attack: Attack) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pipe, end = spawn.Pipe()
        self._process = spawn.Process(target=_run, args=(attack.name, end), daemon=True)
        self._until = 0.0

    def __enter__(self) -> _Attacker:
        self._process.start()
        if not self._pipe.poll(BEGINS_WITHIN_S):
            raise RuntimeError("the attacker did not start")
        self._pipe.recv()
        return self

    def begin(self, target: Target, until: float) -> None:
        self._until = until
        self._pipe.send((target, until))

    def __exit__(self, *_: object) -> None:
        self._process.join(1)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def outcomes(self) -> tuple[Counter[str], float]:
        """The responses that the attack got, once it is over, and its CPU time."""
        if not self._pipe.poll(max(0.0, self._until - time.monotonic()) + ENDS_WITHIN_S):
            return Counter({"the attacker did not end": 1}), float("nan")
        try:
            found: tuple[Counter[str], float] = self._pipe.recv()
        except EOFError:
            return Counter({"the attacker failed": 1}), float("nan")
        return found


def _run(name: str, pipe: multiprocessing.connection.Connection) -> None:
    own_processes.yield_to_others()
    (attack,) = (each for each in ATTACKS if each.name == name)
    if attack.make is not None:
        attack.make()
    pipe.send("ready")
    target, until = pipe.recv()
    # On a busy machine, all of the time may have passed.
    until = max(until, time.monotonic() + LEAST_ATTACK_S)
    began_s = time.process_time()
    outcomes = uvloop.run(attack.run(replace(target, until=until)))  # type: ignore[arg-type]
    pipe.send((outcomes, time.process_time() - began_s))


COLUMNS = (
    *("attack", "on", "what the attacker got", "p99 quiet", "attacked", "added ms", "slowest", "failed"),
    *("memory MB", "bound", "CPU", "attacker", "control", ""),
)


def cells(row: Row) -> list[list[str]]:
    """The lines of the table: for Headgate, and for its peer."""
    windows = [row.ours] + ([row.peer] if row.peer is not None else [])
    lines = []
    for each in windows:
        is_ours = each is row.ours
        got = ", ".join(f"{count:,} {what}" for what, count in each.outcomes.items())
        lines.append(
            [
                row.attack if is_ours else "",
                each.subject,
                got,
                f"{each.quiet_p99_ms:.1f}",
                f"{each.attacked_p99_ms:.1f}",
                f"{each.added_ms:+.1f}",
                f"{each.slowest_ms:.0f}",
                f"{len(each.failures)} of {each.asked}",
                f"{each.memory_mb:.0f} → {each.peak_mb:.0f}",
                f"{row.bound_mb:.0f}" if is_ours else "",
                f"{each.cpu_s / each.seconds:.0%}",
                f"{each.attacker_cpu_s / each.seconds:.0%}",
                f"{row.control.added_ms:+.1f}" if is_ours else "",
                row.verdict if is_ours else "",
            ]
        )
    if row.no_peer:
        lines.append(["", row.no_peer, *[""] * (len(COLUMNS) - 2)])
    return lines


def table(rows: list[Row]) -> Table:
    grid = Table(title="A victim beside each attack", title_justify="left")
    for heading in COLUMNS:
        is_text = heading in ("attack", "on", "what the attacker got", "")
        grid.add_column(
            heading,
            justify="left" if is_text else "right",
            max_width=36,
            overflow="fold",
            no_wrap=not is_text,
        )
    for row in rows:
        for line in cells(row):
            grid.add_row(*line[:-1], line[-1] if row.is_well else f"[bold red]{line[-1]}")
    return grid


def with_table(page: str, run: dict[str, Any]) -> str:
    """The page with the table between its markers replaced by that of this run."""
    before, _, rest = page.partition(BEGINS)
    _, found, after = rest.partition(ENDS)
    if not found:
        raise ValueError(f"{PAGE.name} has no place for the table: {BEGINS.strip()} and {ENDS.strip()}")
    return before + BEGINS + in_markdown(run) + ENDS + after


def in_markdown(run: dict[str, Any]) -> str:
    """The table of a recorded run, with the machine that it ran on."""
    machine = run["machine"]
    told = (
        f"{machine['cpu']}, {machine['cores']} cores, load {run['load']:.1f} before the run, "
        f"Linux {machine['kernel'].partition('-')[0]}, Python {machine['python']}, commit {run['commit']}, "
        f"{run['seconds']:g} s for each attack, {run['at'][:10]}:"
    )
    lines = [list(COLUMNS), ["---"] * len(COLUMNS)]
    lines += [line for row in run["rows"] for line in cells(_row(row))]
    return f"{told}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _row(recorded: dict[str, Any]) -> Row:
    made = {name: Window(**recorded[name]) for name in ("ours", "control")}
    peer = recorded["peer"] and Window(**recorded["peer"])
    return Row(**{**recorded, **made, "peer": peer})


if __name__ == "__main__":
    main()
