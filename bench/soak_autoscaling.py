"""Soak of autoscaling: random load, while engines, controllers and gateways are killed.

    python bench/soak_autoscaling.py --minutes 60 --seed 1

Starts an API server, a node, a controller and two gateways, and three models: one that keeps two replicas,
and a ModelServer and an InferencePool that go to zero. Rates step at random, and pause long enough for that.
At random moments, processes are killed with SIGKILL: an engine, the controller or a gateway. Prints one
table, and exits with status 1 if any request failed.

A client whose gateway is killed tries again, at any gateway that is in rotation, as a load balancer lets it.
A stream that has begun when its engine is killed breaks, as docs/failing-endpoints.md says: it is counted,
and no failure. Everything else that is no complete and correct response is one.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import uvloop
from rich.console import Console
from rich.table import Table

import scaled_clients
from headgate import cluster
from scaled_clients import Clients, Result
from scaled_objects import Scaled
from scaled_rig import Rig, until
from scaled_watch import Seen, Written, watching

MODELS = (
    Scaled("steady", least=2, most=4),
    Scaled("rare", least=0, most=3, grace="10s"),
    Scaled("pool", "InferencePool", least=0, most=2, grace="10s"),
)
STEPS = (0.2, 0.5, 1.0, 2.0)
"""Rates of a phase, in parts of the mean."""
PHASE_S = (10.0, 40.0)
PAUSE_S = (25.0, 60.0)
"""Without requests: longer than the grace period."""
PAUSES = 0.35
"""The part of phases that are pauses."""
STREAMED = 0.5
VICTIMS = {"engine": 6, "controller": 2, "gateway": 2}
"""How often each kind is killed, relative to the others."""
DOWN_S = (0.0, 5.0)
"""How long a process stays down that nobody else starts again."""
NOTICED_S = 10.0
"""By then, a Pod with a killed engine is not ready, or is ready again."""
IN_ROTATION_S = 0.5
"""How long a killed gateway stays in rotation, and refuses connections."""
PROGRESS_EVERY_S = 30.0
QUIET_WITHIN_S = 240.0
BARS = "▁▂▃▄▅▆▇█"
WIDTH = 60
EXAMPLES = 5


def main() -> None:
    options = parsed()
    seconds = options.seconds or options.minutes * 60
    kept = Path(options.keep) if options.keep else None
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # to end what was started
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch, Rig(kept or Path(scratch), (1, 2)) as rig:
        soak = uvloop.run(run(rig, seconds, options))
    show(soak, seconds, options.seed)
    sys.exit(0 if soak.is_well else 1)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seconds", type=float, default=0.0, help="instead of --minutes")
    parser.add_argument("--seed", type=int, default=1, help="seed of load and kills")
    parser.add_argument("--rate", type=float, default=2.0, help="mean requests per second of each model")
    parser.add_argument("--kill-every", type=float, default=20.0, help="mean seconds between two kills")
    parser.add_argument("--keep", default="", metavar="DIRECTORY", help="where state and logs are kept")
    return parser.parse_args()


@dataclass
class Soak:
    """A run, and what came of it."""

    rig: Rig
    clients: Clients
    seen: Seen
    rng: random.Random
    began: float = field(default_factory=time.monotonic)
    ended: float = 0.0
    kills: Counter[str] = field(default_factory=Counter)
    waited_for: set[str] = field(default_factory=set)
    """Pods with an engine that was killed, until they are ready again."""
    unsettled: str = ""
    """What was not as it should be when the load had ended."""

    @property
    def is_well(self) -> bool:
        return not self.unsettled and not any(each.is_failure for each in self.clients.results)

    async def load(self, model: str, rate: float, until_at: float) -> None:
        """Poisson arrivals at a rate that steps and pauses."""
        rng = random.Random(self.rng.random())
        is_first = True
        while time.monotonic() < until_at:
            is_pause = rng.random() < PAUSES and not is_first
            is_first = False
            phase_ends = min(time.monotonic() + rng.uniform(*(PAUSE_S if is_pause else PHASE_S)), until_at)
            if is_pause:
                await asyncio.sleep(phase_ends - time.monotonic())
                continue
            now_rate = rate * rng.choice(STEPS)
            while (now := time.monotonic()) < phase_ends:
                await asyncio.sleep(min(rng.expovariate(now_rate), phase_ends - now))
                if time.monotonic() < phase_ends:
                    self.clients.send(model, streamed=rng.random() < STREAMED)

    async def kill_every(self, mean_s: float) -> None:
        """Until cancelled: one of each kind, and then any."""
        starting: set[asyncio.Task[None]] = set()
        first = [*VICTIMS]
        try:
            while True:
                await asyncio.sleep(self.rng.uniform(0.5, 1.5) * mean_s)
                victim = first.pop() if first else self.rng.choices([*VICTIMS], [*VICTIMS.values()])[0]
                if victim == "engine":
                    self._kill_engine()
                elif victim == "controller" and "controller" in self.rig.running:
                    starting.add(asyncio.create_task(self._kill_controller()))
                elif victim == "gateway" and all(each.is_in_rotation for each in self.rig.gateways):
                    starting.add(asyncio.create_task(self._kill_gateway()))
        finally:
            await asyncio.gather(*starting)

    def _kill_engine(self) -> None:
        """Any, but none a second time before its Pod was ready again, as that is a start that fails, and not
        the last one that is ready of a model that may not go to zero."""
        ready = set().union(*self.seen.now_ready.values())
        for at, pod in self.clients.engine_kills:
            if time.monotonic() - at > NOTICED_S and pod in ready:
                self.waited_for.discard(pod)
        spared = set(self.waited_for)
        for model in MODELS:
            left = self.seen.now_ready[model.name] - self.waited_for
            if model.least and len(left) == 1:
                spared |= left
        engines = {pid: pod for pid, pod in self.rig.engines().items() if pod not in spared}
        if engines:
            pid = self.rng.choice(sorted(engines))
            self.waited_for.add(engines[pid])
            self.clients.engine_kills.append((time.monotonic(), engines[pid]))
            os.kill(pid, signal.SIGKILL)
            self.kills["engine"] += 1

    async def _kill_controller(self) -> None:
        self.kills["controller"] += 1
        self.rig.kill("controller")
        await asyncio.sleep(self.rng.uniform(*DOWN_S))
        self.rig.start("controller")

    async def _kill_gateway(self) -> None:
        gateway = self.rng.choice(self.rig.gateways)
        self.kills["gateway"] += 1
        gateway.kills.append(time.monotonic())
        self.rig.kill(gateway.name)
        await asyncio.sleep(IN_ROTATION_S)
        gateway.is_in_rotation = False
        await asyncio.sleep(self.rng.uniform(*DOWN_S))
        self.rig.start(gateway.name)
        await self.rig.until_ready(gateway)
        gateway.is_in_rotation = True

    async def tell(self) -> None:
        """Print progress until cancelled."""
        while True:
            await asyncio.sleep(PROGRESS_EVERY_S)
            results = self.clients.results
            failed = Counter(each.how for each in results if each.how != "served")
            replicas = ", ".join(f"{each.name} {self.seen.replicas(each.name)}" for each in MODELS)
            at = time.monotonic() - self.began
            print(
                f"{at:5.0f} s  {len(results)} ended {dict(failed)}, {len(self.clients.running)} under way; "
                f"killed {dict(self.kills)}; replicas: {replicas}",
                flush=True,
            )

    async def settle(self) -> None:
        """Without load, everything goes to its minimum."""
        await self.clients.end()
        try:
            await until(self._is_settled, "replicas at their minimum", QUIET_WITHIN_S)
        except TimeoutError as error:
            told = {each.name: self.seen.replicas(each.name) for each in MODELS}
            self.unsettled = f"{error}: {told}"

    async def _is_settled(self) -> bool:
        return all(self.seen.replicas(each.name) == each.least for each in MODELS)


async def run(rig: Rig, seconds: float, options: argparse.Namespace) -> Soak:
    limits = httpx2.Limits(max_keepalive_connections=0, max_connections=2000)
    timeout = scaled_clients.PATIENCE_S
    async with (
        cluster.Client.from_kubeconfig(rig.kubeconfig) as client,
        httpx2.AsyncClient(trust_env=False, limits=limits, timeout=timeout) as http,
        watching(client, MODELS) as seen,
    ):
        await rig.apply(client, MODELS)
        clients = Clients(rig.gateways, random.Random(options.seed), http)
        soak = Soak(rig, clients, seen, random.Random(options.seed + 1))
        await until(_ready(seen), "the first replica")
        soak.began = time.monotonic()
        until_at = soak.began + seconds
        background = [
            asyncio.create_task(soak.kill_every(options.kill_every)),
            asyncio.create_task(soak.tell()),
        ]
        await asyncio.gather(*(soak.load(each.name, options.rate, until_at) for each in MODELS))
        soak.ended = time.monotonic()
        background[0].cancel()
        await asyncio.gather(background[0], return_exceptions=True)
        await soak.settle()
        background[1].cancel()
        await asyncio.gather(*background, return_exceptions=True)
        return soak


def _ready(seen: Seen) -> Callable[[], Awaitable[bool]]:
    async def is_so() -> bool:
        return all(seen.now_ready[each.name] for each in MODELS if each.least)

    return is_so


def show(soak: Soak, seconds: float, seed: int) -> None:
    console = Console(width=120)
    results = soak.clients.results
    table = Table(title=f"Autoscaling for {seconds:g} s, seed {seed}", title_justify="left")
    table.add_column("")
    for each in (*(model.name for model in MODELS), "all"):
        table.add_column(each, justify="right")
    columns = [[one for one in results if one.model == model.name] for model in MODELS] + [results]
    table.add_row("requests", *(f"{len(each):,}" for each in columns))
    table.add_row("served", *(f"{_count(each, 'served'):,}" for each in columns))
    table.add_row("went to another gateway", *(f"{sum(one.others > 0 for one in each)}" for each in columns))
    table.add_row("streams broken with their engine", *(f"{_count(each, 'broken')}" for each in columns))
    for how in sorted({each.how for each in results if each.is_failure}):
        table.add_row(f"[bold red]FAILED: {how}", *(f"{_count(each, how)}" for each in columns))
    if not any(each.is_failure for each in results):
        table.add_row("failed", *("0" for _ in columns))
    for name, part in (("median", 0.5), ("99th percentile of", 0.99), ("longest", 1.0)):
        table.add_row(f"{name} time to the first byte", *(_first_byte(each, part) for each in columns))
    seen = soak.seen
    table.add_row("changes of replicas", *(str(max(len(seen.written[m.name]) - 1, 0)) for m in MODELS), "")
    table.add_row("reversals", *(str(seen.reversals(model.name)) for model in MODELS), "")
    table.add_row("starts from zero", *(str(_wakes(seen.written[model.name])) for model in MODELS), "")
    table.add_row("most ready at a time", *(str(seen.at_once[model.name]) for model in MODELS), "")
    killed = ", ".join(f"{count} of {kind}s" for kind, count in sorted(soak.kills.items())) or "none"
    console.print(table)
    console.print(f"kills: {killed}")
    for model in MODELS:
        load = [each.began for each in results if each.model == model.name]
        console.print(f"{model.name:>8} requests {_drawn(_rates(load, soak.began, soak.ended))}")
        console.print(f"{'':>8} replicas {_drawn(_means(seen.written[model.name], soak.began, soak.ended))}")
    failures = [each for each in results if each.is_failure]
    for each in failures[:EXAMPLES]:
        at = each.began - soak.began
        console.print(
            f"{at:.1f} s: {each.model} {each.how} after {each.ended - each.began:.1f} s: {each.detail}",
            markup=False,
        )
    if soak.unsettled:
        console.print(f"[bold red]FAILED: {soak.unsettled}")


def _count(results: Sequence[Result], how: str) -> int:
    return sum(each.how == how for each in results)


def _first_byte(results: Sequence[Result], part: float) -> str:
    times = sorted(each.first_byte_s for each in results)
    return f"{times[min(int(part * len(times)), len(times) - 1)]:.2f} s" if times else "-"


def _wakes(written: Sequence[Written]) -> int:
    numbers = [each.replicas for each in written]
    return sum(not before and after for before, after in itertools.pairwise(numbers))


def _rates(times: Sequence[float], began: float, ended: float) -> list[float]:
    step = (ended - began) / WIDTH
    return [sum(began + n * step <= at < began + (n + 1) * step for at in times) for n in range(WIDTH)]


def _means(written: Sequence[Written], began: float, ended: float) -> list[float]:
    """Of replicas, by parts of the time; the last in each."""
    step, found, now, rest = (ended - began) / WIDTH, [], 0, list(written)
    for number in range(WIDTH):
        most = now
        while rest and rest[0].at < began + (number + 1) * step:
            now = rest.pop(0).replicas
            most = max(most, now)
        found.append(float(most))
    return found


def _drawn(values: Sequence[float]) -> str:
    most = max(values, default=0) or 1
    bars = "".join(" " if not value else BARS[round(value / most * (len(BARS) - 1))] for value in values)
    return f"{bars} at most {max(values, default=0):g}"


if __name__ == "__main__":
    main()
