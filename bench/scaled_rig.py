"""The processes of `headgate up`, each by itself, so that it can be killed: API server, node, controller and
gateways; and what they scale."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import yaml

import scaled_objects
from headgate import cluster
from ports import held_port
from scaled_objects import Scaled

READY_WITHIN_S = 180.0
LOGGED_CHARACTERS = 4000
"""Of a log, in an error."""
STOP_WITHIN_S = 60.0
MANAGER = "bench"
ENGINE_COMMAND, LAUNCHER = "headgate simulate", "launcher.py"
IMAGES = {
    "images": [
        {
            "image": "vllm/*",
            "command": ["headgate", "simulate", "as", *scaled_objects.ENGINE_FLAGS],
            "wrap": True,
        }
    ],
}


@dataclass
class Gateway:
    """One gateway; clients do not know whether it runs."""

    name: str
    workers: int
    port: int
    metrics_port: int
    admin_port: int
    is_in_rotation: bool = True
    """Whether a load balancer would send requests to it: those that were killed are taken out by whoever
    kills them, and come back when they are ready."""
    kills: list[float] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def metrics_url(self) -> str:
        return f"http://127.0.0.1:{self.metrics_port}"


class Rig:
    """The processes. A context manager: all of them end with it."""

    def __init__(self, scratch: Path, gateways: Sequence[int], *flags: str) -> None:
        """`gateways`: the workers of each. `flags`: of all gateways."""
        self._scratch = scratch
        self._flags = flags
        self._words: dict[str, list[str]] = {}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.gateways = [
            Gateway(f"gateway-{number}", workers, held_port(), held_port(), held_port())
            for number, workers in enumerate(gateways)
        ]

    @property
    def kubeconfig(self) -> Path:
        return self._scratch / "state" / "kubeconfig"

    def __enter__(self) -> Rig:
        try:
            self._start_all()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _start_all(self) -> None:
        (self._scratch / "weights").mkdir(parents=True, exist_ok=True)
        (self._scratch / "weights" / "config.json").write_text("{}")
        claims = [{"claim": "weights", "directory": str(self._scratch / "weights")}]
        images = self._scratch / "images.yaml"
        images.write_text(yaml.safe_dump({**IMAGES, "claims": claims}))
        state = self._scratch / "state"
        self.start("apiserver", "apiserver", "--state", state, "--port", held_port())
        self._wait("apiserver", self.kubeconfig.exists)
        own = ("--kubeconfig", self.kubeconfig)
        self.start("node", "node", *own, "--state", state, "--images", images, "--kubelet-port", 0)
        for each in self.gateways:
            self.start(
                *(each.name, "gateway", *own, "--port", each.port, "--workers", each.workers),
                *("--metrics-port", each.metrics_port, "--admin-port", each.admin_port),
                *("--clients-trusted-networks", "127.0.0.1/32", *self._flags),
            )
        named = [word for each in self.gateways for word in ("--gateway", each.metrics_url)]
        self.start("controller", "controller", *own, *named)
        for each in self.gateways:
            self._wait(each.name, functools.partial(self.is_ready, each))

    # Processes

    def start(self, name: str, *words: object) -> None:
        """Without words, as the last time."""
        self._words[name] = [str(each) for each in words] or self._words[name]
        # Variables of whoever runs this are no settings.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("HEADGATE_")}
        with self.log(name).open("ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-P", "-m", "headgate", *self._words[name]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
            )

    def _wait(self, name: str, holds: Callable[[], object]) -> None:
        """Until a process that was started is ready. Errors have the end of its log."""
        began = time.monotonic()
        while not holds():
            ended, is_late = self.running[name].poll(), time.monotonic() - began > READY_WITHIN_S
            if ended is not None or is_late:
                told = f"is not ready within {READY_WITHIN_S:g} s" if ended is None else f"ended with {ended}"
                raise RuntimeError(f"{name} {told}:\n{self.log(name).read_text()[-LOGGED_CHARACTERS:]}")
            time.sleep(0.05)

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def end(self) -> None:
        """All of them, in an order in which none misses another."""
        order = ("gateway", "controller", "node", "apiserver")
        for name in sorted(self.running, key=lambda name: order.index(name.partition("-")[0])):
            process = self.running[name]
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_WITHIN_S)
            process.kill()
            process.wait()
        self.running.clear()

    def log(self, name: str) -> Path:
        return self._scratch / f"{name}.log"

    def is_ready(self, gateway: Gateway) -> bool:
        try:
            page = httpx2.get(f"http://127.0.0.1:{gateway.admin_port}/readyz", trust_env=False, timeout=10)
        except httpx2.TransportError:
            return False
        return page.status_code == 200

    async def until_ready(self, gateway: Gateway) -> None:
        await until(lambda: asyncio.to_thread(self.is_ready, gateway), gateway.name)

    def engines(self) -> dict[int, str]:
        """The processes of simulated engines, with the Pod of each."""
        return {
            pid: environment.get("POD_NAME", "")
            for pid in _below(self.running["node"].pid)
            if ENGINE_COMMAND in (command := _command(pid))
            and LAUNCHER not in command
            and (environment := _environment(pid))
        }

    # Objects

    async def apply(self, client: cluster.Client, models: Sequence[Scaled]) -> None:
        for model in models:
            for each in model.objects():
                await client.apply_manifest(each, field_manager=MANAGER)

    async def remove(self, client: cluster.Client, model: Scaled) -> None:
        for each in model.objects():
            metadata = each["metadata"]
            resource = await client.resource_of(each["apiVersion"], each["kind"])
            path = client.path_of(resource, metadata["name"], metadata["namespace"])
            await client.ask("DELETE", path)

    async def history(self, client: cluster.Client, name: str) -> dict[str, Any]:
        """The status of a binding."""
        path = "/apis/registry.volcano.sh/v1alpha1/namespaces/default/autoscalingpolicybindings"
        answer = await client.ask("GET", f"{path}/{name}")
        return dict(json.loads(answer.body).get("status") or {})


async def until(holds: Callable[[], Any], told: str, limit_s: float = READY_WITHIN_S) -> None:
    """Poll a coroutine function; raises TimeoutError that says what was waited for."""
    began = time.monotonic()
    while not await holds():
        if time.monotonic() - began > limit_s:
            raise TimeoutError(f"{told}: not within {limit_s:g} s")
        await asyncio.sleep(0.1)


def _below(pid: int) -> Iterator[int]:
    """The descendants of a process."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if fields[0] != "Z":
                    parents.setdefault(int(fields[1]), []).append(int(entry.name))
    queue = [pid]
    while queue:
        for child in parents.get(queue.pop(), []):
            queue.append(child)
            yield child


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _environment(pid: int) -> dict[str, str]:
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    return dict(entry.partition("=")[::2] for entry in raw.split("\0") if "=" in entry)
