"""Measures the embedded API server on this machine: creates, lists, watches and memory, in one table.

The server runs in its own process, accessed through its HTTPS API; docs/benchmarks.md describes the
measurements.

    python bench/apiserver.py
    python bench/apiserver.py --objects 2000 --clients 16
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import click
import uvloop
from rich.console import Console
from rich.table import Table

import cpu
import kube
from gateway import commit

RESULTS = Path(__file__).with_name("results") / "apiserver.jsonl"
PODS = "/api/v1/namespaces/default/pods"
START_S = 60.0
SETTLE_S = 0.5

progress = Console(stderr=True)


@dataclass(frozen=True)
class Settings:
    objects: int
    clients: int
    lists: int
    watchers: int
    writes: int
    pause_ms: float


@dataclass(frozen=True)
class Measure:
    """One number with its goal."""

    name: str
    title: str
    unit: str
    value: float
    goal: float
    at_least: bool = False
    detail: str = ""

    @property
    def reached(self) -> bool:
        return self.value >= self.goal if self.at_least else self.value <= self.goal


def pod(number: int) -> bytes:
    """A Pod as a controller creates one for an engine: about 1.2 KB before defaults."""
    name = f"llama-8b-decode-{number:06d}"
    labels = {"app": "llama-8b", "role": "decode", "pod-template-hash": "7c9f6d5b8"}
    container = {
        "name": "engine",
        "image": "registry.example/vllm/vllm-openai:v0.11.0",
        "args": ["--model", "/models/llama-8b", "--port", "8000", "--max-num-seqs", "256"],
        "ports": [{"name": "http", "containerPort": 8000}],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "resources": {"limits": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}},
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 5},
        "volumeMounts": [{"name": "models", "mountPath": "/models", "readOnly": True}],
    }
    spec = {"containers": [container], "volumes": [{"name": "models", "emptyDir": {}}]}
    meta = {"name": name, "namespace": "default", "labels": labels}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}).encode()


@contextlib.contextmanager
def server(state: Path) -> Iterator[tuple[int, kube.Cluster]]:
    """Run the server's process; yields its pid and the connection details."""
    command = [sys.executable, "-m", "headgate", "apiserver", "--state", str(state), "--port", "0"]
    with (state / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + START_S
        while b"API server ready" not in (state / "log").read_bytes():
            if process.poll() is not None or time.monotonic() > deadline:
                raise click.ClickException(f"the server did not start: {(state / 'log').read_text()[-500:]}")
            time.sleep(0.05)
        yield process.pid, kube.Cluster.load(state / "kubeconfig")
    finally:
        process.terminate()
        process.wait()


class Bench:
    """Measures one server, in order: each measurement uses the objects of the previous ones."""

    def __init__(self, pid: int, cluster: kube.Cluster, settings: Settings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._cpu_s = functools.partial(cpu.cpu_seconds, pid)
        self._pid = pid
        self.measures: list[Measure] = []

    async def run(self) -> None:
        for step in (self._creates, self._memory, self._lists, self._fan_out):
            progress.print(f"[dim]{step.__name__.strip('_')}")
            await step()
        peak = cpu.peak_memory_mb(self._pid)
        progress.print(f"[dim]peak of resident memory {peak:.0f} MB")

    async def _creates(self) -> None:
        settings = self._settings
        bodies = [pod(number) for number in range(settings.objects)]
        connections = [await self._cluster.connect() for _ in range(settings.clients)]
        warm_up = len(bodies) // 10
        await self._create_all(connections, bodies[:warm_up])
        begun, before = time.perf_counter(), self._cpu_s()
        delays = await self._create_all(connections, bodies[warm_up:])
        seconds, cpu_s = time.perf_counter() - begun, self._cpu_s() - before
        for connection in connections:
            connection.close()
        count = len(delays)
        self.measures += [
            Measure(
                "creates",
                f"durable creates, {settings.clients} clients",
                "/s",
                count / seconds,
                2000,
                at_least=True,
                detail=f"p50 {_at(delays, 0.5) * 1e3:.1f} ms, p99 {_at(delays, 0.99) * 1e3:.1f} ms",
            ),
            Measure("create-cpu", "CPU time of a create", "µs", cpu_s / count * 1e6, 500),
        ]

    async def _create_all(self, connections: Sequence[kube.Connection], bodies: list[bytes]) -> list[float]:
        """Create all objects; returns the seconds of each create."""
        left = iter(bodies)
        delays: list[float] = []

        async def client(connection: kube.Connection) -> None:
            for body in left:
                answer = await connection.request("POST", PODS, body)
                _expect(answer, 201)
                delays.append(answer.total_s)

        async with asyncio.TaskGroup() as tasks:
            for connection in connections:
                tasks.create_task(client(connection))
        return delays

    async def _memory(self) -> None:
        await asyncio.sleep(SETTLE_S)
        mb = resident_mb(self._pid)
        title = f"resident memory at {self._settings.objects:,} objects"
        self.measures.append(Measure("memory", title, "MB", mb, 150))

    async def _lists(self) -> None:
        connection = await self._cluster.connect()
        before = self._cpu_s()
        answers = [await connection.request("GET", PODS) for _ in range(self._settings.lists)]
        cpu_s = (self._cpu_s() - before) / len(answers)
        connection.close()
        for answer in answers:
            _expect(answer, 200)
        count = answers[-1].body.count(b'"kind":"Pod"')
        if count != self._settings.objects:
            raise click.ClickException(f"the list has {count} Pods, not {self._settings.objects}")
        seconds = statistics.median(answer.total_s for answer in answers)
        megabytes = len(answers[-1].body) / 1e6
        detail = f"{megabytes:.0f} MB, first byte {answers[-1].first_byte_s * 1e3:.0f} ms, CPU {cpu_s:.2f} s"
        title = f"list of {count:,} Pods"
        self.measures.append(Measure("list", title, "s", seconds, 0.3, detail=detail))

    async def _fan_out(self) -> None:
        settings = self._settings
        arrived: list[float] = []
        done = asyncio.Event()

        def on_body(data: bytes) -> None:
            arrived.append(time.perf_counter())
            if len(arrived) == settings.watchers:
                done.set()

        writer = await self._cluster.connect()
        listed = json.loads((await writer.request("GET", f"{PODS}?limit=1")).body)
        version = listed["metadata"]["resourceVersion"]
        watchers = [await self._cluster.connect() for _ in range(settings.watchers)]
        for connection in watchers:
            connection.watch(f"{PODS}?watch=true&resourceVersion={version}", on_body)
        await asyncio.sleep(SETTLE_S)
        delays: list[float] = []
        before = self._cpu_s()
        path = f"{PODS}/{listed['items'][0]['metadata']['name']}"
        for number in range(settings.writes):
            arrived.clear()
            done.clear()
            patch = json.dumps({"metadata": {"annotations": {"beat": str(number)}}}).encode()
            sent = time.perf_counter()
            answer = await writer.request("PATCH", path, patch, "application/merge-patch+json")
            _expect(answer, 200)
            async with asyncio.timeout(10):
                await done.wait()
            delays += [at - sent for at in arrived]
            await asyncio.sleep(settings.pause_ms / 1000)
        each_us = (self._cpu_s() - before) / len(delays) * 1e6
        for connection in [writer, *watchers]:
            connection.close()
        title = f"one write seen by {settings.watchers} watchers"
        self.measures += [
            Measure("fan-out-p50", f"{title}, p50", "ms", _at(delays, 0.5) * 1e3, 20),
            Measure(
                "fan-out-p99",
                f"{title}, p99",
                "ms",
                _at(delays, 0.99) * 1e3,
                20,
                detail=f"CPU {each_us:.0f} µs an event",
            ),
        ]


def resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise click.ClickException("the server has ended")


def _at(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)]


def _expect(answer: kube.Answer, status: int) -> None:
    if answer.status != status:
        raise click.ClickException(f"answered {answer.status}: {answer.body[:300].decode(errors='replace')}")


def machine(state: Path) -> dict[str, Any]:
    """The machine, with the decisive figures: the speed of Python and the duration of a flush to disk."""
    return cpu.machine() | {
        "python_loop_ms": round(_best(_python_loop, 5) * 1e3, 1),
        "flush_us": round(_flush_s(state) * 1e6),
        "load": round(os.getloadavg()[0], 1),
        **{name: metadata.version(name) for name in ("uvloop", "uvicorn", "msgspec")},
    }


def _python_loop() -> None:
    total = 0
    for number in range(1_000_000):
        total += number & 7


def _best(work: Callable[[], None], count: int) -> float:
    times = []
    for _ in range(count):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def _flush_s(directory: Path) -> float:
    """The median time to write 4 KB through to disk."""
    times = []
    with (directory / "flush").open("wb", buffering=0) as file:
        file.write(bytes(4096))
        for _ in range(50):
            file.seek(0)
            file.write(os.urandom(4096))
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begun)
    return statistics.median(times)


def show(run: dict[str, Any], measures: Sequence[Measure], console: Console) -> None:
    grid = Table(title="The embedded API server", title_justify="left")
    for name, justify in (("", "left"), ("measured", "right"), ("goal", "right"), ("", "left")):
        grid.add_column(name, justify=justify)  # type: ignore[arg-type]
    for measure in measures:
        color = "green" if measure.reached else "yellow"
        digits = 2 if measure.value < 10 else 0
        value = f"[{color}]{measure.value:,.{digits}f} {measure.unit}"
        bound = "≥" if measure.at_least else "≤"
        grid.add_row(measure.title, value, f"{bound} {measure.goal:,g} {measure.unit}", measure.detail)
    console.print(grid)
    facts = run["machine"]
    console.print(
        f"[dim]{facts['cpu']}, {facts['cores']} cores, Linux {facts['kernel']}, Python {facts['python']}: "
        f"a million turns of a loop in {facts['python_loop_ms']} ms, a flush to disk in "
        f"{facts['flush_us']} µs; load {facts['load']} before the run",
        highlight=False,
    )


@click.command(help=__doc__)
@click.option(
    "--objects", type=click.IntRange(100), default=10_000, show_default=True, help="Pods to create."
)
@click.option("--clients", type=click.IntRange(1), default=64, show_default=True, help="Concurrent writers.")
@click.option("--lists", type=click.IntRange(1), default=5, show_default=True, help="Full lists (median).")
@click.option(
    "--watchers", type=click.IntRange(1), default=100, show_default=True, help="Concurrent watches."
)
@click.option("--writes", type=click.IntRange(1), default=100, show_default=True, help="Writes to fan out.")
@click.option("--pause-ms", type=float, default=20.0, show_default=True, help="Between those writes.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--record/--no-record", default=True, help="Append the run to bench/results.")
def main(output: str, record: bool, **options: Any) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwind, so that every started process ends
    settings = Settings(**options)
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as directory:
        facts = machine(Path(directory))
        with server(Path(directory)) as (pid, cluster):
            bench = Bench(pid, cluster, settings)
            uvloop.run(bench.run())
    run = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": facts,
        "settings": asdict(settings),
        "measures": [asdict(measure) for measure in bench.measures],
    }
    if record:
        RESULTS.parent.mkdir(exist_ok=True)
        with RESULTS.open("a") as results:
            results.write(json.dumps(run) + "\n")
    if output == "json":
        click.echo(json.dumps(run, indent=2))
    else:
        show(run, bench.measures, Console())


if __name__ == "__main__":
    main()
