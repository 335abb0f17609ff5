"""A gateway that serves the routes of a real cluster, over engines that run as processes of a node."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from running import running
from traffic import MODEL, Engine, Gateway

SHIFTED = """
import mmap, os, runpy, struct, sys, time
page = mmap.mmap(os.open(sys.argv[1], os.O_RDONLY), 8, prot=mmap.PROT_READ)
real = time.time
time.time = lambda: real() + struct.unpack("d", page)[0]
sys.argv[:2] = ["headgate"]
runpy.run_module("headgate", run_name="__main__")
"""
"""Runs Headgate on a machine whose clock is set wrong, by the seconds in a file."""

FAST = ("--base-s", "0.002", "--per-start-s", "0")
"""Of a simulated engine: it can serve hundreds of requests a second."""
BODY = json.dumps(
    {"model": MODEL, "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]}
).encode()
REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(BODY), BODY)
)


class Load:
    """Clients that send a number of requests a second, whatever becomes of them, until the block ends.

    Each takes an idle connection, or opens one to any of the current addresses, as the proxy of a Service
    would. A request on an idle connection that turns out to be closed is sent once more on another one, as
    HTTP clients do.
    """

    def __init__(self, addresses: Callable[[], Sequence[str]], rate: float) -> None:
        self.statuses: Counter[int] = Counter()
        self.failures: list[str] = []
        """Of requests that got no response."""
        self._addresses = addresses
        self._rate = rate
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    @property
    def requests(self) -> int:
        """How many are over."""
        return self.statuses.total() + len(self.failures)

    async def _run(self) -> None:
        began, sent = time.monotonic(), 0
        async with asyncio.TaskGroup() as group:
            while not self._is_over.is_set():
                while sent < (time.monotonic() - began) * self._rate:
                    sent += 1
                    group.create_task(self._request())
                await asyncio.sleep(0.005)
        for _, writer in self._idle:
            writer.close()

    async def _request(self) -> None:
        try:
            async with asyncio.timeout(60):
                if self._idle:
                    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                        self.statuses[await self._exchange(*self._idle.pop())] += 1
                        return
                host, port = random.choice(self._addresses()).rsplit(":", 1)
                self.statuses[await self._exchange(*await asyncio.open_connection(host, int(port)))] += 1
        except (OSError, asyncio.IncompleteReadError, TimeoutError, IndexError) as error:
            self.failures.append(repr(error))

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        """Sends a request and reads the response. IncompleteReadError if the connection ends before it."""
        is_kept = False
        try:
            writer.write(REQUEST)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            [length] = [int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")]
            await reader.readexactly(length)
            is_kept = b"\r\nconnection: close\r\n" not in head
        finally:
            if is_kept:
                self._idle.append((reader, writer))
            else:
                writer.close()
        return int(head[9:12])


@pytest.fixture
def start_engines(cluster, process_node, namespace) -> Callable[..., list[Engine]]:
    """Makes a Deployment of simulated engines, which run as processes at the addresses of their Pods."""
    node = process_node(f"engines-{namespace}", "10.244.80.0/24")  # not that of Pods of another test

    def run(name: str, replicas: int = 1) -> list[Engine]:
        container = {
            "name": "engine",
            "image": "headgate",
            "command": ["headgate", "simulate", "engine", "--model", MODEL, *FAST],
            "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 1},
        }
        labels = {"app": name}
        spec = {"nodeSelector": {"kubernetes.io/hostname": node.name}, "containers": [container]}
        deployment = {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        }
        metadata = {"name": name}
        manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": deployment}
        cluster.apply(manifest, namespace=namespace)
        place = ("-n", namespace)
        cluster.kubectl("rollout", "status", f"deployment/{name}", *place, "--timeout=60s")
        pods = cluster.get("pods", *place, "-l", f"app={name}")["items"]
        return [Engine(pod["metadata"]["name"], pod["status"]["podIP"]) for pod in pods]

    return run


@pytest.fixture
def start_engine(start_engines) -> Callable[[str], Engine]:
    """Makes a Deployment of one simulated engine."""
    return lambda name: start_engines(name)[0]


@pytest.fixture
def gateway(kubeconfig_of, namespace, start_gateway, eventually) -> Gateway:
    """A gateway with the rights of the chart."""
    started = start_gateway(kubeconfig_of("gateway"), "--namespace", namespace)
    eventually(started.is_ready)
    return started


@pytest.fixture
def apply(cluster, namespace) -> Callable[..., None]:
    """Applies objects in the namespace of the test."""
    return lambda *manifests: cluster.apply(*manifests, namespace=namespace)


@dataclass(frozen=True)
class Clock:
    """The wall clock of a program."""

    file: Path

    @property
    def program(self) -> list[str | Path]:
        """The command that runs Headgate by this clock."""
        return [sys.executable, "-c", SHIFTED, self.file]

    def set(self, offset_s: float) -> None:
        """Forward by some seconds, or back."""
        with self.file.open("r+b") as file:
            file.write(struct.pack("d", offset_s))


@pytest.fixture
def clock(tmp_path) -> Clock:
    made = Clock(tmp_path / "clock")
    made.file.write_bytes(struct.pack("d", 0.0))
    return made


@pytest.fixture
def load() -> Callable[..., Load]:
    """Makes the traffic of clients."""
    return lambda addresses, rate=200.0: Load(addresses, rate)


@pytest.fixture
def paused(cluster) -> Callable[[str], contextlib.AbstractContextManager[None]]:
    """Makes blocks during which a program of the control plane does not run."""

    @contextlib.contextmanager
    def block(program: str) -> Iterator[None]:
        pid = running(cluster.state)[program].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    return block
