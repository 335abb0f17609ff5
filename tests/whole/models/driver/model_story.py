"""Random changes of Models at random moments, with processes killed, under load."""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import yaml
from fleet_of_models import LIMIT_S, Models, backend
from model_traffic import Load, WrongAnswerError, ask, load
from up_pieces import Pieces, answers, below

SECONDS = float(os.environ.get("HEADGATE_SECONDS", "30"))
SEED = os.environ.get("HEADGATE_SEED", "gate")
ENGINE_COMMAND = "simulate as"
"""In the command line of an engine."""
LONGEST_PAUSE_S = 3.0
GROUP = {"distributed-executor-backend": "mp", "tensor-parallel-size": 2}
"""Of a worker of two Pods."""
NIXL = {"kv-transfer-config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"}}
ROUNDS_OF_ANSWERS = 3


class Sources(NamedTuple):
    """Where Models come from."""

    weights: Sequence[str] = ("pvc://weights", "pvc://others")
    adapter: str = "pvc://adapter"
    cache: str = ""
    env: Sequence[Mapping[str, str]] = ()


def some_backend(rng: random.Random, name: str, sources: Sources) -> dict[str, Any]:
    config = {"max-model-len": rng.choice([4096, 8192])} | rng.choice([{}, {"port": 9000}])
    kind = rng.choice(["vLLM", "vLLM", "SGLang", "vLLMDisaggregated"])
    is_group = kind == "vLLM" and rng.random() < 0.25
    workers: list[dict[str, Any]] = [{"type": "server", "config": config if kind == "vLLM" else {}}]
    if is_group:
        workers = [{"type": "server", "pods": 2, "config": config | GROUP}]
    if kind == "vLLMDisaggregated":
        workers = [{"type": "prefill", "config": NIXL}, {"type": "decode", "config": NIXL}]
    fields: dict[str, Any] = {
        "type": kind,
        "workers": workers,
        "modelURI": rng.choice(sources.weights),
        "env": [*sources.env, {"name": "COLOR", "value": rng.choice(["red", "green"])}],
        "routeWeight": rng.choice([0, 50, 100]),
    }
    if sources.cache:
        fields["cacheURI"] = sources.cache
    if kind == "vLLM" and not is_group and rng.random() < 0.5:
        fields["loraAdapters"] = [{"name": f"{name}-adapter", "artifactURL": sources.adapter}]
        if rng.random() < 0.5:
            fields["env"].append({"name": "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "value": "true"})
    is_large = is_group or kind == "vLLMDisaggregated"
    return backend(name, 1 if is_large else rng.choice([1, 1, 2]), **fields)


def some_backends(rng: random.Random, sources: Sources) -> list[dict[str, Any]]:
    """At least one has weight."""
    names = rng.choice([["a"], ["b"], ["a", "b"], ["c"]])
    found = [some_backend(rng, name, sources) for name in names]
    if not any(each["routeWeight"] for each in found):
        found[0]["routeWeight"] = 100
    return found


LAPTOP = Sources()


@dataclass
class Story:
    """The Model `m` is asked all the time, and always exists; `other` comes and goes."""

    rng: random.Random
    pieces: Pieces
    gateways: dict[str, tuple[str, str]]
    """The inference API and the admin page of each, by the name of the piece."""
    models: Models
    load: Load
    sources: Sources = LAPTOP
    kill_server: Callable[[], None] | None = None
    """Kills an API server that somebody else starts again."""
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
        if "apiserver" in self.pieces.running or self.kill_server is not None:
            acts[self.kill_api_server] = 1
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            [act] = self.rng.choices([*acts], [*acts.values()])
            self.log.append(f"{time.strftime('%H:%M:%S')} {act.__name__}")
            await act()
            await asyncio.sleep(self.rng.uniform(0, LONGEST_PAUSE_S))
        await asyncio.gather(*self._starting)

    async def edit(self) -> None:
        backends = some_backends(self.rng, self.sources)
        self.log.append(f"  {json.dumps(backends)}")
        await self.models.put(*backends)

    async def change_other(self) -> None:
        if self.rng.random() < 0.4:
            await self.models.delete("models", "other")
            return
        called = self.rng.choice(["", "first", "second"])
        await self.models.put(*some_backends(self.rng, self.sources)[:1], name="other", public=called)

    async def kill_controller(self) -> None:
        await self._kill("controller")

    async def kill_api_server(self) -> None:
        if self.kill_server is not None:
            self.kill_server()
        else:
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
        async with httpx2.AsyncClient(trust_env=False, timeout=180) as http:
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


async def any_story(
    pieces: Pieces,
    gateways: dict[str, tuple[str, str]],
    models: Models,
    node_state: Path,
    sources: Sources = LAPTOP,
    kill_server: Callable[[], None] | None = None,
) -> None:
    """A Model changes and is asked while processes are killed. Asserts that nobody got an error while an
    engine could answer, that the objects are those of a Model made anew, and that nothing is left over."""
    rng = random.Random(SEED)
    await models.put(*some_backends(rng, sources))
    await models.settled()
    async with load([url for url, _ in gateways.values()], ["m"]) as running:
        story = Story(rng, pieces, gateways, models, running, sources, kill_server)
        await story.answered()
        try:
            await story.tell(SECONDS)
            model = await models.settled()
            await running.goes_on()
        finally:
            print(f"seed {SEED}", *story.log, sep="\n")  # noqa: T201 - shown if the test fails
    running.has_no_failure()
    assert running.answered.total() > SECONDS
    after = await models.children(model["metadata"]["uid"])
    for name in ("m", "other"):
        await models.delete("models", name)
    await models.gone(model["metadata"]["uid"])
    await models.put(*model["spec"]["backends"])
    anew = await models.settled()
    assert_same(after, await models.children(anew["metadata"]["uid"]))
    await models.delete("models", "m")
    await models.gone(anew["metadata"]["uid"])
    await _until(lambda: asyncio.to_thread(lambda: not _left(node_state, pieces)))


def assert_same(after: Mapping[str, Any], anew: Mapping[str, Any]) -> None:
    """The objects of an edited Model are those of one made anew."""
    texts = [
        [f"{name}: {line}" for name in sorted(each) for line in yaml.safe_dump(each[name]).splitlines()]
        for each in (after, anew)
    ]
    difference = "\n".join(difflib.unified_diff(*texts, "edited", "made anew", lineterm="", n=0))
    assert not difference, difference


def _left(node_state: Path, pieces: Pieces) -> list[str]:
    """Files and processes of Pods on a node."""
    files = [str(each) for place in ("pods", "processes") for each in (node_state / place).iterdir()]
    running = below(pieces.running["node"].pid).values()
    return files + [each for each in running if ENGINE_COMMAND in each or " runtime " in each]
