"""What attacks do to everybody else: latency of a victim, memory, and refusals, in one table.

Clients, engines, authors of objects and holders of tokens attack a fresh install, one class at a time. Beside
each attack a client asks small questions at a steady rate. docs/limits.md says what bounds each class.

    make bench-attacks
    make bench-attacks ARGS="--only bodies --seconds 4"

Ends with status 1 where the victim's p99 rose by more than 50 ms, a request of it failed, or memory went
beyond the documented bound.
"""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.connection
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import click
import uvloop
from rich.console import Console
from rich.table import Table

import cpu
import kube
from attack import ATTACKS, Attack, Latencies, Rig, Victim
from attack.target import Target
from gateway import commit

RESULTS = Path(__file__).with_name("results") / "attacks.jsonl"
MAY_ADD_MS = 50.0
"""How much higher the victim's p99 may be under attack than in the quiet window before it."""
QUIET_S = 3.0
BEGINS_WITHIN_S = 60.0
ENDS_WITHIN_S = 60.0

progress = Console(stderr=True)


@dataclass(frozen=True)
class Row:
    """What one attack came to."""

    attack: str
    outcomes: dict[str, int]
    quiet_p99_ms: float
    attacked_p99_ms: float
    slowest_ms: float
    asked: int
    failures: list[str]
    memory_mb: float
    peak_mb: float
    bound_mb: float
    cpu_s: float
    """Of the process under attack, meanwhile."""
    seconds: float

    @property
    def added_ms(self) -> float:
        return self.attacked_p99_ms - self.quiet_p99_ms

    @property
    def is_well(self) -> bool:
        return self.added_ms <= MAY_ADD_MS and not self.failures and self.peak_mb <= self.bound_mb


@click.command(help=__doc__)
@click.option("--only", multiple=True, help="Attacks whose name has this in it; may be repeated.")
@click.option("--seconds", default=6.0, show_default=True, help="How long each attack goes on.")
@click.option("--list", "only_names", is_flag=True, help="Print the names of the attacks.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--record", is_flag=True, help=f"Append the rows to {RESULTS.parent.name}/{RESULTS.name}.")
def main(only: tuple[str, ...], seconds: float, only_names: bool, output: str, record: bool) -> None:
    chosen = [attack for attack in ATTACKS if not only or any(part in attack.name for part in only)]
    if only_names:
        click.echo("\n".join(attack.name for attack in chosen))
        return
    if not chosen:
        raise click.BadParameter(
            f"no attack has {' or '.join(only)} in its name: see --list", param_hint="--only"
        )
    with tempfile.TemporaryDirectory(prefix="attacks-") as scratch, Rig(Path(scratch)) as rig:
        rows = [uvloop.run(attacked(rig, attack, seconds)) for attack in chosen]
    if output == "json":
        click.echo(json.dumps([asdict(row) for row in rows], indent=4))
    else:
        Console(width=200).print(table(rows))
    if record:
        run = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "commit": commit(),
            "machine": cpu.machine(),
            "rows": [asdict(row) for row in rows],
        }
        with RESULTS.open("a") as file:
            file.write(json.dumps(run) + "\n")
    sys.exit(0 if all(row.is_well for row in rows) else 1)


async def attacked(rig: Rig, attack: Attack, seconds: float) -> Row:
    """One attack beside one victim."""
    progress.print(f"[dim]{attack.name}")
    if attack.prepare is not None:
        await attack.prepare(str(rig.kubeconfig))
    pid = rig.gateway_pid if attack.of == "gateway" else rig.apiserver_pid
    victim = (
        Victim.of_gateway(rig.port)
        if attack.of == "gateway"
        else Victim.of_apiserver(kube.Cluster.load(rig.kubeconfig))
    )
    await victim.ask(0.5)  # opens its connections
    quiet = await victim.ask(QUIET_S)
    memory_mb = cpu.memory_kb(pid) / 1024
    cpu.forget_peak(pid)
    before_s = cpu.cpu_seconds(pid)
    with _Attacker(attack) as attacker:
        began = time.monotonic()
        attacker.begin(rig.target(began + seconds))
        during = await victim.ask(seconds)
        cpu_s, lasted_s = cpu.cpu_seconds(pid) - before_s, time.monotonic() - began
        outcomes = attacker.outcomes()
    victim.close()
    return _row(attack, outcomes, quiet, during, (memory_mb, cpu.peak_memory_mb(pid)), cpu_s, lasted_s)


def _row(
    attack: Attack,
    outcomes: Counter[str],
    quiet: Latencies,
    during: Latencies,
    memory_mb: tuple[float, float],
    cpu_s: float,
    lasted_s: float,
) -> Row:
    return Row(
        attack.name,
        dict(outcomes.most_common()),
        round(quiet.percentile(0.99), 1),
        round(during.percentile(0.99), 1),
        round(max(during.ms, default=float("nan")), 1),
        len(during.ms) + len(during.failures),
        [*quiet.failures, *during.failures],
        round(memory_mb[0]),
        round(memory_mb[1]),
        attack.memory_mb,
        round(cpu_s, 2),
        round(lasted_s, 1),
    )


class _Attacker:
    """The process of an attack. Use it as a context: it ends with it."""

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

    def begin(self, target: Target) -> None:
        self._until = target.until
        self._pipe.send(target)

    def __exit__(self, *_: object) -> None:
        self._process.join(1)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def outcomes(self) -> Counter[str]:
        """What the attack got, once it is over."""
        if not self._pipe.poll(max(0.0, self._until - time.monotonic()) + ENDS_WITHIN_S):
            return Counter({"the attacker did not end": 1})
        try:
            found: Counter[str] = self._pipe.recv()
        except EOFError:
            return Counter({"the attacker failed": 1})
        return found


def _run(name: str, pipe: multiprocessing.connection.Connection) -> None:
    os.nice(19)
    (attack,) = (each for each in ATTACKS if each.name == name)
    pipe.send("ready")
    pipe.send(uvloop.run(attack.run(pipe.recv())))  # type: ignore[arg-type]


def table(rows: list[Row]) -> Table:
    grid = Table(title="A victim beside each attack", title_justify="left")
    grid.add_column("attack")
    grid.add_column("what the attacker got", max_width=40, overflow="fold")
    for heading in ("p99 quiet", "attacked", "added ms", "slowest", "failed", "memory MB", "bound", "CPU"):
        grid.add_column(heading, justify="right")
    grid.add_column("")
    for row in rows:
        got = ", ".join(f"{count:,} {what}" for what, count in row.outcomes.items())
        grid.add_row(
            row.attack,
            got,
            f"{row.quiet_p99_ms:.1f}",
            f"{row.attacked_p99_ms:.1f}",
            f"{row.added_ms:+.1f}",
            f"{row.slowest_ms:.0f}",
            f"{len(row.failures)} of {row.asked}",
            f"{row.memory_mb:.0f} → {row.peak_mb:.0f}",
            f"{row.bound_mb:.0f}",
            f"{row.cpu_s / row.seconds:.0%}",
            "ok" if row.is_well else "[bold red]HARMED",
        )
    return grid


if __name__ == "__main__":
    main()
