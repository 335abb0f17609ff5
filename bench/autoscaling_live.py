"""How fast autoscaling is, on one machine with real processes and simulated engines.

    python bench/autoscaling_live.py

A step: the load of a model steps from what one engine is to do to what eight are to do. It is met when eight
are ready; the table says how long that took beyond the start of the slowest engine.

From zero: requests arrive at once, at one gateway or several, for a model without an engine. The table says
how long it took from the first request until replicas were written, and from the moment when the engine was
ready until the first byte of the first response. Exits with status 1 if a request failed, or if replicas were
written more than once for a start.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx2
import uvloop
from rich.console import Console
from rich.table import Table

from headgate import cluster
from scaled_clients import PATIENCE_S, Clients
from scaled_objects import PROMPT_TOKEN_S, TARGET, Scaled
from scaled_rig import Gateway, Rig, until
from scaled_watch import Seen, watching

STEPPED = Scaled("stepped", most=8, down_window="5m")
COLD = (
    Scaled("server", least=0, most=4, grace="5s"),
    Scaled("pool", "InferencePool", least=0, most=4, grace="5s"),
    Scaled("model", "Model", least=0, most=4, grace="5s"),
)
WORDS, TOKENS_OF_A_WORD = 200, 1.42
ONE_PER_S = 0.95 * TARGET / (WORDS * TOKENS_OF_A_WORD * PROMPT_TOKEN_S)
"""Requests per second for one engine: a little less than it is to do, so that eight times as many are for
eight."""
WARM_S, LEARNED = 180.0, 0.95
"""For at most so long, the gateway learns what a request costs, until it knows this part of it."""
STEP_S = 90.0
AT_ONCE = 6
"""Requests that wake a model."""


@dataclass(frozen=True)
class Step:
    """Seconds from the step on."""

    written_s: float
    """Until eight replicas were written."""
    met_s: float
    """Until eight were ready."""
    start_s: float
    """Of the slowest Pod, from its creation to its readiness."""
    failed: int
    writes: list[tuple[float, int]]
    """When replicas were written, and how many."""

    @property
    def beyond_start_s(self) -> float:
        return self.met_s - self.start_s


@dataclass(frozen=True)
class Wake:
    """A start from zero."""

    model: str
    gateways: str
    written_s: float
    """From the first request until replicas were written."""
    start_s: float
    """From the creation of the Pod to its readiness."""
    answered_s: float
    """From then on until the first byte of the first response."""
    writes: list[int]
    """Replicas that were written."""
    served: int
    failed: int


def main() -> None:
    options = parsed()
    with tempfile.TemporaryDirectory(prefix="live-") as scratch, Rig(Path(scratch), (1, 2)) as rig:
        step, wakes = uvloop.run(measure(rig, options))
    is_well = all(not each.failed and each.writes == [1] for each in wakes) and not (step and step.failed)
    if options.output == "json":
        found = {**asdict(step), "beyond_start_s": step.beyond_start_s} if step is not None else None
        print(json.dumps({"step": found, "wakes": [asdict(each) for each in wakes]}, indent=1))
    else:
        show(step, wakes)
    sys.exit(0 if is_well else 1)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=["step", "zero"], help="one of both")
    parser.add_argument("--quick", action="store_true", help="each model wakes once, by all gateways at once")
    parser.add_argument("--output", choices=["table", "json"], default="table")
    return parser.parse_args()


async def measure(rig: Rig, options: argparse.Namespace) -> tuple[Step | None, list[Wake]]:
    step, wakes = None, list[Wake]()
    if options.only != "zero":
        async with site(rig, [STEPPED]) as (clients, seen):
            # One gateway: each worker learns by itself.
            step = await stepped(Clients(rig.gateways[:1], clients.rng, clients.http), seen)
    if options.only != "step":
        async with site(rig, COLD) as (clients, seen):
            ways = [rig.gateways] if options.quick else [[each] for each in rig.gateways] + [rig.gateways]
            for model in COLD:
                for gateways in ways:
                    wakes.append(await woken(clients, seen, model, gateways))
    return step, wakes


@asynccontextmanager
async def site(rig: Rig, models: Sequence[Scaled]) -> AsyncIterator[tuple[Clients, Seen]]:
    """The models, and clients of all gateways."""
    limits = httpx2.Limits(max_keepalive_connections=0, max_connections=4000)
    async with (
        cluster.Client.from_kubeconfig(rig.kubeconfig) as client,
        httpx2.AsyncClient(trust_env=False, limits=limits, timeout=PATIENCE_S) as http,
        watching(client, models) as seen,
    ):
        await rig.apply(client, models)
        yield Clients(rig.gateways, random.Random(1), http), seen
        for model in models:
            await rig.remove(client, model)


async def stepped(clients: Clients, seen: Seen) -> Step:
    name = STEPPED.name

    async def has_one() -> bool:
        return len(seen.now_ready[name]) == 1

    await until(has_one, "the first engine")
    rng = random.Random(2)
    warming = asyncio.create_task(_load(clients, rng, ONE_PER_S))
    await until(lambda: _has_learned(clients), "costs are learned", WARM_S)
    warming.cancel()
    began = time.monotonic()
    loading = asyncio.create_task(_load(clients, rng, STEPPED.most * ONE_PER_S))

    async def has_all() -> bool:
        return len(seen.now_ready[name]) >= STEPPED.most

    with suppress(TimeoutError):
        await until(has_all, "eight engines", STEP_S)
    loading.cancel()
    await clients.end()
    written = next((each.at for each in seen.written[name] if each.replicas == STEPPED.most), float("inf"))
    ready = sorted(seen.ready[name].values())
    met = ready[STEPPED.most - 1] if len(ready) >= STEPPED.most else float("inf")
    created = seen.created[name]
    starts = [at - created[pod] for pod, at in seen.ready[name].items() if created[pod] >= began]
    failed = sum(each.is_failure for each in clients.results)
    writes = [(round(each.at - began, 2), each.replicas) for each in seen.written[name] if each.at >= began]
    return Step(written - began, met - began, max(starts, default=float("inf")), failed, writes)


async def _load(clients: Clients, rng: random.Random, rate: float) -> None:
    """Poisson arrivals until cancelled."""
    due = time.monotonic()
    while True:
        due += rng.expovariate(rate)
        await asyncio.sleep(max(due - time.monotonic(), 0))
        clients.send(STEPPED.name, streamed=rng.random() < 0.5, words=WORDS, tokens=4)


async def _has_learned(clients: Clients) -> bool:
    [gateway] = clients.gateways
    page = (await clients.http.get(f"{gateway.metrics_url}/signals")).json()
    pool = next((each for each in page["pools"] if each["name"] == STEPPED.name), None)
    known = pool and pool["work_seconds"] / pool["arrivals"] if pool and pool["arrivals"] > 1 else 0.0
    return known > LEARNED * WORDS * TOKENS_OF_A_WORD * PROMPT_TOKEN_S


async def woken(clients: Clients, seen: Seen, model: Scaled, gateways: Sequence[Gateway]) -> Wake:
    name = model.name

    async def is_cold() -> bool:
        return seen.replicas(name) == 0 and not seen.now_ready[name] and await knows_start()

    async def knows_start() -> bool:
        """Whether each gateway has seen that there is no Pod left."""
        for gateway in clients.gateways:
            page = (await clients.http.get(f"{gateway.metrics_url}/signals")).json()
            pools = [each for each in page["pools"] if each["name"].startswith(name)]
            if not pools or any(each["endpoints"] for each in pools):
                return False
        return True

    await until(is_cold, f"{name} is at zero")
    await asyncio.sleep(1.0)
    before, known = len(seen.written[name]), set(seen.created[name])
    asking = Clients(gateways, clients.rng, clients.http)
    began = time.monotonic()
    for number in range(AT_ONCE):
        asking.send(name, streamed=number % 2 == 1, words=4, tokens=4)
    await asking.end()
    written = seen.written[name][before:]
    pods = set(seen.created[name]) - known
    ready = min((seen.ready[name][pod] for pod in pods if pod in seen.ready[name]), default=float("nan"))
    created = min((seen.created[name][pod] for pod in pods), default=float("nan"))
    served = [each for each in asking.results if not each.is_failure]
    answered = min((each.began + each.first_byte_s for each in served), default=float("nan"))
    return Wake(
        model=model.kind,
        gateways=" and ".join(f"1 of {each.workers} worker{'s' * (each.workers > 1)}" for each in gateways),
        written_s=(written[0].at if written else float("nan")) - began,
        start_s=ready - created,
        answered_s=answered - ready,
        writes=[each.replicas for each in written if each.at <= answered],
        served=len(served),
        failed=len(asking.results) - len(served),
    )


def show(step: Step | None, wakes: Sequence[Wake]) -> None:
    console = Console(width=120)
    if step is not None:
        table = Table(title="A step from the load of one engine to that of eight", title_justify="left")
        for heading in ("8 written", "8 ready", "slowest start", "beyond the start", "failed requests"):
            table.add_column(heading, justify="right")
        seconds = (step.written_s, step.met_s, step.start_s, step.beyond_start_s)
        table.add_row(*(f"{each:.2f} s" for each in seconds), str(step.failed))
        console.print(table)
        console.print("written:", ", ".join(f"{replicas} after {at:.2f} s" for at, replicas in step.writes))
    if wakes:
        table = Table(title=f"{AT_ONCE} requests for a model at zero", title_justify="left")
        table.add_column("model")
        table.add_column("gateways")
        for heading in ("written", "start", "then the first byte", "replicas written", "served", "failed"):
            table.add_column(heading, justify="right")
        for each in wakes:
            writes = ", ".join(map(str, each.writes)) or "none"
            table.add_row(
                each.model,
                each.gateways,
                f"{1000 * each.written_s:.0f} ms",
                f"{each.start_s:.2f} s",
                f"{1000 * each.answered_s:.0f} ms",
                writes,
                str(each.served),
                str(each.failed),
            )
        console.print(table)


if __name__ == "__main__":
    main()
