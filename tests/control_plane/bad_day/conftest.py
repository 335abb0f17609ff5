"""A gateway that serves the routes of a real cluster, over engines that run as processes of a node."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from clients import Load
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
