"""Soak of pickers that are killed and replaced behind Envoy: what do clients notice?

    python bench/soak_picker.py --minutes 60

One Envoy with two pickers, which it checks for health, and four engines. Pickers are killed, terminated or
stopped for a while at random, and replaced; sometimes both at a time. Requests are sent through two
listeners of Envoy. One fails open: no request may fail, whatever becomes of the pickers. The other fails
closed: a request may fail only around such a fault, and must be told so in time. Exits with status 1
otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2
import uvloop
from rich.console import Console
from rich.table import Table

import gateway
import load
import ports
import proxies
import upstream
from pickers import programs
from pickers.asking_envoy import BUFFERED, FULL_DUPLEX, Listening, configuration
from proxies.envoy import Envoy
from proxies.processes import wait_until

PICKERS = 2
TIMEOUT_S = 2.0
"""Of Envoy, for each response of a picker."""
TOLD_WITHIN_S = 10.0
"""A request that fails must be told so within this time, on a machine that is busy with other things too."""
AFTERMATH_S = 8.0
"""A fault may be noticed for so long after its end."""
ENDS_WITHIN_S = 30.0
KINDS = ("kill both", "kill", "terminate", "stop")

progress = Console(stderr=True, width=120)


class Pickers(programs.Headgate):
    """Replicas of our picker at fixed ports, of one API server."""

    def start_all(self, engines: Sequence[tuple[str, int]]) -> list[int]:
        """Start them; return their ports."""
        self.fresh_scratch()
        self._kubeconfig = self._api_server(engines)
        self._ports = [[ports.held_port() for _ in range(3)] for _ in range(PICKERS)]
        self.processes = [self._start(number) for number in range(PICKERS)]
        self.wait_until_ready()
        return [grpc for grpc, _, _ in self._ports]

    def wait_until_ready(self) -> None:
        """Wait until all of them are."""
        for grpc, _, page in self._ports:
            wait_until(lambda page=page: self._is_ready(page), f"the picker on {grpc}", lambda: None)

    def replace(self, number: int) -> None:
        """Wait until a picker has ended, and start another in its place."""
        ended = self.processes[number]
        ended.wait(ENDS_WITHIN_S)
        self._running.remove(ended)
        self.processes[number] = self._start(number)

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        grpc, health, page = self._ports[number]
        self.spawn(
            f"picker-{number}",
            *(programs.HEADGATE, "picker", "--kubeconfig", self._kubeconfig),
            *("--pool-name", programs.cluster.POOL, "--host", "127.0.0.1", "--secure-serving=false"),
            *("--grpc-port", str(grpc), "--grpc-health-port", str(health), "--metrics-port", str(page)),
            *("--drain-timeout", "5s"),
        )
        return self._running[-1]

    @staticmethod
    def _is_ready(page: int) -> bool:
        return httpx2.get(f"http://127.0.0.1:{page}/readyz").status_code == 200


class Proxy(Envoy):
    """Envoy with a listener that fails open, and one that fails closed."""

    def start_both(self, pickers: Sequence[int], engines: Sequence[tuple[str, int]]) -> tuple[int, int]:
        """Start it; return their ports."""
        self.fresh_scratch()
        opens, closes = ports.held_port(), ports.held_port()
        listeners = [
            Listening(opens, BUFFERED, fails_open=True, timeout_s=TIMEOUT_S),
            Listening(closes, FULL_DUPLEX, timeout_s=TIMEOUT_S),
        ]
        addresses = [("127.0.0.1", port) for port in pickers]
        made = configuration(
            listeners, addresses, list(engines), self.scratch / "access.log", checks_health=True
        )
        file = self.scratch / "envoy.json"
        file.write_text(json.dumps(made, indent=1))
        self.spawn(
            "envoy",
            *(self._environment / "bin" / "envoy", "--config-path", file, "--concurrency", "1"),
            *("--use-dynamic-base-id", "--log-level", "warning"),
        )
        for port in (opens, closes):
            self.answers(port)
        return opens, closes


@dataclass
class Seen:
    """What clients of one listener saw."""

    name: str
    served: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[float, float]] = field(default_factory=list)
    """When each request that failed was sent, and when its client was told."""

    @property
    def told_after_s(self) -> list[float]:
        return [told - sent for sent, told in self.failures]

    @property
    def all_failed(self) -> int:
        return self.failed.total()


class Soak:
    """The faults and the requests of one run."""

    def __init__(self, pickers: Pickers, rng: random.Random, seconds: float) -> None:
        self._pickers, self._rng, self._seconds = pickers, rng, seconds
        self.faults: list[tuple[str, float, float]] = []
        """Kind, beginning and end of each."""
        self._ends = time.monotonic() + seconds

    async def fail(self, every_s: float) -> None:
        """Let pickers fail, one fault after the other."""
        for kind in itertools.chain(KINDS, iter(lambda: self._rng.choice(KINDS), "")):
            await asyncio.sleep(self._rng.uniform(0.5, 1.5) * every_s)
            if time.monotonic() > self._ends - AFTERMATH_S:
                return
            began = time.monotonic()
            await self._fault(kind)
            self.faults.append((kind, began, time.monotonic()))

    async def _fault(self, kind: str) -> None:
        hit = range(PICKERS) if kind == "kill both" else [self._rng.randrange(PICKERS)]
        number = {"terminate": signal.SIGTERM, "stop": signal.SIGSTOP}.get(kind, signal.SIGKILL)
        for each in hit:
            self._pickers.processes[each].send_signal(number)
        await asyncio.sleep(self._rng.uniform(0.2, 3.0))
        for each in hit:
            if kind == "stop":
                self._pickers.processes[each].send_signal(signal.SIGCONT)
            else:
                await asyncio.to_thread(self._pickers.replace, each)
        # The next fault meets pickers that are ready.
        await asyncio.to_thread(self._pickers.wait_until_ready)

    async def ask(self, seen: Seen, port: int, bodies: Sequence[bytes], rate: float) -> None:
        """Send requests at a steady rate."""
        url = f"http://127.0.0.1:{port}{load.CHAT_PATH}"
        async with httpx2.AsyncClient(timeout=60.0) as client, asyncio.TaskGroup() as tasks:
            for body in itertools.cycle(bodies):
                if time.monotonic() > self._ends:
                    return
                tasks.create_task(_one(client, url, body, seen))
                await asyncio.sleep(1 / rate)

    def explains(self, sent: float, told: float) -> bool:
        """Whether a fault was noticeable while a request was in progress."""
        return any(began <= told and sent <= end + AFTERMATH_S for _, began, end in self.faults)


async def _one(client: httpx2.AsyncClient, url: str, body: bytes, seen: Seen) -> None:
    began = time.monotonic()
    try:
        reply = await client.post(url, content=body, headers={"content-type": "application/json"})
        told = (
            ""
            if reply.status_code == 200 and reply.content == upstream.COMPLETION
            else str(reply.status_code)
        )
    except httpx2.HTTPError as error:
        told = type(error).__name__
    if not told:
        seen.served += 1
        return
    seen.failed[told] += 1
    seen.failures.append((began, time.monotonic()))


async def soak(seconds: float, options: argparse.Namespace) -> dict[str, Any]:
    (proxies.CACHE / "run").mkdir(parents=True, exist_ok=True)
    pickers, envoy = Pickers(), Proxy()
    envoy.install()
    seen = Seen("fails open"), Seen("fails closed")
    bodies = [*load.chat_bodies(600, count=16), *load.chat_bodies(8000, count=16)]
    with gateway.engines() as (_, port):
        engines = [(host, port) for host in gateway.ENGINES]
        try:
            asked = envoy.start_both(pickers.start_all(engines), engines)
            run = Soak(pickers, random.Random(options.seed), seconds)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(run.fail(options.fault_every))
                for each, listener in zip(seen, asked, strict=True):
                    tasks.create_task(run.ask(each, listener, bodies, options.rate / 2))
        finally:
            envoy.stop()
            pickers.stop()
    opens, closes = seen
    unexplained = [each for each in closes.failures if not run.explains(*each)]
    late = [took for took in closes.told_after_s if took > TOLD_WITHIN_S]
    return {
        "seconds": seconds,
        "faults": Counter(kind for kind, _, _ in run.faults),
        "listeners": [
            {
                "name": each.name,
                "served": each.served,
                "failed": dict(each.failed),
                "told_within_s": round(max(each.told_after_s, default=0.0), 2),
                "told_median_s": round(statistics.median(each.told_after_s), 2) if each.told_after_s else 0.0,
            }
            for each in seen
        ],
        "unexplained": len(unexplained),
        "late": len(late),
        "is_well": not opens.all_failed
        and not unexplained
        and not late
        and min(opens.served, closes.served) > 0,
    }


def show(result: dict[str, Any]) -> None:
    grid = Table(title=f"{result['seconds']:.0f} s with pickers that fail", title_justify="left")
    for column in ("listener", "served", "failed", "told after"):
        grid.add_column(column)
    for each in result["listeners"]:
        kinds = ", ".join(f"{count} x {kind}" for kind, count in each["failed"].items()) or "none"
        told = f"{each['told_median_s']:g} s, at most {each['told_within_s']:g} s" if each["failed"] else ""
        grid.add_row(each["name"], f"{each['served']:,}", kinds, told)
    console = Console(width=120)
    console.print(grid)
    console.print(
        "faults: " + ", ".join(f"{count} x {kind}" for kind, count in sorted(result["faults"].items())),
        f"; without a fault: {result['unexplained']}; later than {TOLD_WITHIN_S:g} s: {result['late']}",
        sep="",
        highlight=False,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seconds", type=float, default=0.0, help="instead of --minutes")
    parser.add_argument("--seed", type=int, default=1, help="seed of the faults")
    parser.add_argument(
        "--rate", type=float, default=40.0, help="requests per second, through both listeners"
    )
    parser.add_argument("--fault-every", type=float, default=6.0, help="seconds between faults, on average")
    options = parser.parse_args()
    result = uvloop.run(soak(options.seconds or options.minutes * 60, options))
    show(result)
    sys.exit(0 if result["is_well"] else 1)


if __name__ == "__main__":
    main()
