"""Random changes of Models at random moments, with processes killed, under load."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from fleet_of_models import LIMIT_S, Models, backend
from model_traffic import Load, WrongAnswerError, ask
from up_pieces import Pieces, answers, below

ENGINE_COMMAND = "simulate as"
"""In the command line of an engine."""
LONGEST_PAUSE_S = 3.0
NIXL = {"kv-transfer-config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"}}
ROUNDS_OF_ANSWERS = 3


def some_backend(rng: random.Random, name: str) -> dict[str, Any]:
    config = {"max-model-len": rng.choice([4096, 8192])} | rng.choice([{}, {"port": 9000}])
    kind = rng.choice(["vLLM", "vLLM", "SGLang", "vLLMDisaggregated"])
    worker: dict[str, Any] = {"type": "server", "config": config if kind == "vLLM" else {}}
    workers = [worker]
    if kind == "vLLMDisaggregated":
        workers = [{"type": "prefill", "config": NIXL}, {"type": "decode", "config": NIXL}]
    fields: dict[str, Any] = {
        "type": kind,
        "workers": workers,
        "modelURI": rng.choice(["pvc://weights", "pvc://others"]),
        "env": [{"name": "COLOR", "value": rng.choice(["red", "green"])}],
        "routeWeight": rng.choice([0, 50, 100]),
    }
    if kind == "vLLM" and rng.random() < 0.5:
        fields["loraAdapters"] = [{"name": f"{name}-adapter", "artifactURL": "pvc://adapter"}]
        if rng.random() < 0.5:
            fields["env"].append({"name": "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "value": "true"})
    return backend(name, 1 if kind == "vLLMDisaggregated" else rng.choice([1, 1, 2]), **fields)


def some_backends(rng: random.Random) -> list[dict[str, Any]]:
    """At least one has weight."""
    names = rng.choice([["a"], ["b"], ["a", "b"], ["c"]])
    found = [some_backend(rng, name) for name in names]
    if not any(each["routeWeight"] for each in found):
        found[0]["routeWeight"] = 100
    return found


@dataclass
class Story:
    """The Model `m` is asked all the time, and always exists; `other` comes and goes."""

    rng: random.Random
    pieces: Pieces
    gateways: dict[str, tuple[str, str]]
    """The inference API and the admin page of each, by the name of the piece."""
    models: Models
    load: Load
    log: list[str] = field(default_factory=list)
    """What happened."""
    _starting: list[asyncio.Task[None]] = field(default_factory=list)

    async def tell(self, seconds: float) -> None:
        """Things happen for so long; at the end, everything runs that should."""
        acts: dict[Callable[[], Awaitable[None]], int] = {
            self.edit: 6,
            self.change_other: 3,
            self.kill_controller: 2,
            self.kill_gateway: 1,
            self.kill_engine: 2,
            self.kill_node: 1,
        }
        if "apiserver" in self.pieces.running:
            acts[self.kill_api_server] = 1
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            [act] = self.rng.choices([*acts], [*acts.values()])
            self.log.append(f"{time.strftime('%H:%M:%S')} {act.__name__}")
            await act()
            await asyncio.sleep(self.rng.uniform(0, LONGEST_PAUSE_S))
        await asyncio.gather(*self._starting)

    async def edit(self) -> None:
        backends = some_backends(self.rng)
        self.log.append(f"  {json.dumps(backends)}")
        await self.models.put(*backends)

    async def change_other(self) -> None:
        if self.rng.random() < 0.4:
            await self.models.delete("models", "other")
            return
        called = self.rng.choice(["", "first", "second"])
        await self.models.put(*some_backends(self.rng)[:1], name="other", public=called)

    async def kill_controller(self) -> None:
        await self._kill("controller")

    async def kill_api_server(self) -> None:
        await self._kill("apiserver")

    async def kill_gateway(self) -> None:
        """Its load balancer notices. Requests that it has are lost with it."""
        if len(self.load.gateways) == 1:
            return
        url = self.rng.choice(self.load.gateways)
        [(name, admin)] = [(name, pair[1]) for name, pair in self.gateways.items() if pair[0] == url]
        self.load.gateways.remove(url)
        with self.load.excuse(url):
            self.pieces.kill(name)

        async def start() -> None:
            self.pieces.start(name)
            await _until(lambda: asyncio.to_thread(answers, f"{admin}/readyz"))
            self.load.gateways.append(url)

        self._starting.append(asyncio.create_task(start()))

    async def kill_engine(self) -> None:
        """Of whichever Pod. Requests that it has are lost with it."""
        engines = [
            pid
            for pid, command in below(self.pieces.running["node"].pid).items()
            if ENGINE_COMMAND in command
        ]
        if not engines:
            return
        with self.load.excuse():
            os.kill(self.rng.choice(engines), signal.SIGKILL)
            await self.answered()

    async def kill_node(self) -> None:
        """Its processes end with it."""
        with self.load.excuse():
            self.pieces.kill("node")
            await asyncio.sleep(self.rng.uniform(0, LONGEST_PAUSE_S))
            self.pieces.start("node")
            await asyncio.sleep(LONGEST_PAUSE_S)
            await self.answered()

    async def answered(self) -> None:
        """Returns once each gateway that is in rotation answers, a few times in turn."""
        good = 0
        began = time.monotonic()
        async with httpx2.AsyncClient(trust_env=False, timeout=60) as http:
            while good < ROUNDS_OF_ANSWERS:
                try:
                    for url in [*self.load.gateways]:
                        await ask(http, url, "m", streamed=False)
                    good += 1
                except (WrongAnswerError, httpx2.TransportError) as error:
                    good = 0
                    assert time.monotonic() - began < LIMIT_S, f"nobody answers: {error}"
                await asyncio.sleep(0.2)

    async def _kill(self, name: str) -> None:
        """It starts again a little later, while other things happen."""
        if name not in self.pieces.running:
            return
        self.pieces.kill(name)
        pause_s = self.rng.uniform(0, LONGEST_PAUSE_S)

        async def start() -> None:
            await asyncio.sleep(pause_s)
            self.pieces.start(name)

        self._starting.append(asyncio.create_task(start()))


async def _until(holds: Callable[[], Awaitable[object]]) -> None:
    began = time.monotonic()
    while not await holds():
        assert time.monotonic() - began < LIMIT_S
        await asyncio.sleep(0.1)


def files_of_pods(state: Path) -> list[str]:
    """What a node keeps of the Pods that it has."""
    return sorted(
        str(each.relative_to(state)) for place in ("pods", "processes") for each in (state / place).iterdir()
    )
