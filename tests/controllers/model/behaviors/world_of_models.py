"""Where the behaviors of Models take place: an API server with a node, a controller and a gateway."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import socket
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import yaml
from fleet_of_models import PATHS, Models, client_of
from loopback_hub import Hub, Repository, running_hub
from model_traffic import WrongAnswerError, ask
from up_pieces import Pieces, answers, below, wait

from headgate.engines import mindie

LIMIT_S = 240.0
"""Nothing here takes nearly as long: it only turns a hang into a failure."""
POLL_S = 0.2
SIMULATED = ["headgate", "simulate", "as", "--profile", "fast"]
STAND_IN = [sys.executable, str(Path(__file__).parent / "stand_in_for_mindie.py")]
ADAPTERS_ALLOWED = {"name": "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "value": "true"}
CLAIMS = ("weights", "adapters")
"""Claims with a directory each; one has a name that cannot be a directory of the root."""
POLICY = {"metrics": [{"metricName": "num_requests_waiting", "targetValue": 10}]}

T = TypeVar("T")
Behavior = Callable[["World"], Awaitable[None]]
Claimed = Callable[[str, str, Path], list[dict[str, Any]]]
"""Makes the objects of a claim, from its name, its namespace and a directory; the embedded API server needs
none."""


@dataclass
class Site:
    """Processes that all behaviors share."""

    directory: Path
    kubeconfig: Path
    hub: Hub
    pieces: Pieces
    gateway: str = ""
    """Its URL."""

    @property
    def node(self) -> int:
        """The process whose children the Pods are."""
        return self.pieces.running["node"].pid


@contextlib.contextmanager
def running_site(
    directory: Path,
    kubeconfig: Path,
    new_port: Callable[[], int],
    node: tuple[object, ...] = (),
    api_server: tuple[object, ...] = (),
) -> Iterator[Site]:
    """A hub, a node, a controller and a gateway. `node` are flags of the node; `api_server` is the command of
    the API server if it is not running yet."""
    for claim in CLAIMS:
        (directory / claim).mkdir()
        (directory / claim / "config.json").write_text("{}")
    images = directory / "images.yaml"
    images.write_text(yaml.safe_dump(_images(directory)))
    pieces = Pieces(directory)
    ports = [new_port() for _ in range(3)]
    own = ("--kubeconfig", kubeconfig)
    try:
        with running_hub() as hub:
            site = Site(directory, kubeconfig, hub, pieces, f"http://127.0.0.1:{ports[0]}")
            if api_server:
                pieces.start("apiserver", *api_server)
                wait(kubeconfig.exists)
            pieces.start("node", "node", *own, "--images", images, "--drain-timeout", 1, *node)
            pieces.start("controller", "controller", *own)
            pieces.start(
                *("gateway", "gateway", *own, "--port", ports[0], "--admin-port", ports[1]),
                *("--metrics-port", ports[2], "--queue-no-endpoint-wait-s", 0),
                *("--clients-trusted-networks", "127.0.0.1/32"),
            )
            wait(lambda: answers(f"http://127.0.0.1:{ports[1]}/readyz"))
            wait(lambda: all("ready" in pieces.log(name).read_text() for name in ("node", "controller")))
            yield site
            pieces.end()
    finally:
        pieces.end()


def _images(directory: Path) -> dict[str, Any]:
    simulated = [{"image": each, "command": SIMULATED, "wrap": True} for each in ("vllm/*", "lmsysorg/*")]
    repository = mindie.IMAGE.rpartition(":")[0]
    return {
        "images": [*simulated, {"image": repository, "command": STAND_IN, "wrap": True}],
        "claims": [{"claim": each, "directory": str(directory / each)} for each in CLAIMS],
    }


@dataclass
class World:
    """A namespace for one behavior, and one Model in it."""

    site: Site
    http: httpx2.AsyncClient
    gateway: httpx2.AsyncClient
    namespace: str
    name: str
    """Of the Model: another one for each behavior, because the gateway knows all namespaces."""
    claimed: Claimed
    seen: set[tuple[str, int]] = field(default_factory=set)
    """Addresses and ports of Pods."""

    def __post_init__(self) -> None:
        self.models = Models(self.http, self.namespace)
        self.hub = self.site.hub
        weights = {"config.json": b"{}", "model.safetensors": bytes(1 << 20)}
        self.hub.repositories = {
            "org/model": Repository(weights),
            "org/adapter": Repository({"adapter_config.json": b"{}", "weights": bytes(1000)}),
        }

    # -- what a user does

    def backend(self, name: str = "b", replicas: int = 1, **fields: Any) -> dict[str, Any]:
        """A backend of one worker, by default with a simulated vLLM."""
        return {
            "name": name,
            "type": "vLLM",
            "modelURI": "hf://org/model",
            "minReplicas": replicas,
            "maxReplicas": max(replicas, 1),
            "workers": [{"type": "server"}],
            **fields,
            "env": [{"name": "HF_ENDPOINT", "value": self.hub.url}, *fields.get("env", [])],
        }

    async def put(self, *backends: dict[str, Any], **spec: Any) -> None:
        """Create the Model, or replace its spec."""
        await self.models.put(*backends, name=self.name, **spec)

    async def claim(self, name: str) -> None:
        """Make the claim `name`, of the directory that the node has for it."""
        for each in self.claimed(name, self.namespace, self.site.directory / name):
            await self.send("POST", _collection(each, self.namespace), each)

    async def send(
        self, method: str, path: str, content: object = None, kind: str = "application/json"
    ) -> dict[str, Any]:
        """A request to the API server, which accepts it."""
        body = None if content is None else json.dumps(content)
        response = await self.http.request(method, path, content=body, headers={"content-type": kind})
        assert response.status_code < 300, response.text
        found: dict[str, Any] = response.json()
        return found

    def path(self, kind: str, name: str = "") -> str:
        """Of an object, or of all of a kind."""
        return f"/{PATHS[kind]}/namespaces/{self.namespace}/{kind}" + (f"/{name}" if name else "")

    async def patch(self, kind: str, name: str, change: object) -> None:
        """Merge a change into an object."""
        path = self.path(kind, name)
        await self.send("PATCH", path, change, "application/merge-patch+json")

    # -- what a user sees

    async def get(self, kind: str, name: str = "") -> dict[str, Any]:
        """The object of this name, or of the Model's."""
        return await self.models.get(kind, name or self.name)

    async def find(self, kind: str, name: str) -> dict[str, Any] | None:
        found = [each for each in await self.list(kind) if each["metadata"]["name"] == name]
        return found[0] if found else None

    async def list(self, kind: str) -> list[dict[str, Any]]:
        """All objects of a kind in the namespace."""
        found: list[dict[str, Any]] = (await self.send("GET", self.path(kind)))["items"]
        return found

    async def names(self, kind: str) -> set[str]:
        return {each["metadata"]["name"] for each in await self.list(kind)}

    async def there(self, kind: str, name: str) -> dict[str, Any]:
        """The object, once it exists."""
        return await self.until(lambda: self.find(kind, name))

    async def gone(self, kind: str, name: str) -> None:
        async def is_gone() -> bool:
            return await self.find(kind, name) is None

        await self.until(is_gone)

    async def status(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.get("models")).get("status", {})
        return found

    async def says(self, kind: str, status: str, reason: str = "") -> dict[str, Any]:
        """The condition of the Model, once it has this status, and this reason if one is given."""

        async def found() -> dict[str, Any] | None:
            for each in (await self.status()).get("conditions", []):
                if (each["type"], each["status"]) == (kind, status) and reason in ("", each["reason"]):
                    return dict(each)
            return None

        return await self.until(found)

    async def settled(self) -> dict[str, Any]:
        """The Model, once everything is as it was written last."""
        model = await self.models.settled(self.name, LIMIT_S)
        for pod in await self.models.of(model["metadata"]["uid"], "pods"):
            containers = (*pod["spec"]["containers"], *pod["spec"].get("initContainers", []))
            ports = [port["containerPort"] for each in containers for port in each.get("ports", [])]
            self.seen |= {(pod["status"]["podIP"], port) for port in ports}
        return model

    async def adapters(self) -> dict[str, dict[str, tuple[str, int]]]:
        """State and number of Pods with it, by backend and adapter."""
        return {
            backend["name"]: {
                each["name"]: (each["state"], each.get("loaded", 0)) for each in backend.get("adapters", [])
            }
            for backend in (await self.status()).get("backendStatuses", [])
        }

    async def event(self, reason: str) -> dict[str, Any]:
        """An Event of the Model with this reason, once there is one."""
        path = f"/api/v1/namespaces/{self.namespace}/events"

        async def found() -> dict[str, Any] | None:
            for each in (await self.send("GET", path))["items"]:
                about = each["involvedObject"]
                if (about["kind"], about["name"], each["reason"]) == ("Model", self.name, reason):
                    return dict(each)
            return None

        return await self.until(found)

    async def ask(self, model: str = "", prompt: str = "Hello") -> str:
        """The Pod that answers a request for the Model, or for an adapter, once one does."""
        asked = model or self.name

        async def answered() -> str:
            with contextlib.suppress(WrongAnswerError, httpx2.TransportError):
                return await ask(self.gateway, self.site.gateway, asked, streamed=False, prompt=prompt)
            return ""

        return await self.until(answered)

    async def pods_asked(self, model: str, requests: int) -> list[str]:
        """The Pods that answer so many requests, none of which fails."""
        await self.ask(model)
        return [
            await ask(self.gateway, self.site.gateway, model, streamed=bool(turn % 2))
            for turn in range(requests)
        ]

    async def finished(self, pod: dict[str, Any]) -> int:
        """How many requests a Pod of vLLM has finished."""
        page = (await self.gateway.get(f"http://{pod['status']['podIP']}:8000/metrics")).text
        lines = [line for line in page.splitlines() if line.startswith("vllm:request_success_total")]
        return sum(int(float(line.split()[-1])) for line in lines)

    async def until(self, probe: Callable[[], Awaitable[T | None]]) -> T:
        """What the probe returns, once that is true."""
        deadline = time.monotonic() + LIMIT_S
        while not (found := await probe()):
            if time.monotonic() > deadline:
                model = await self.find("models", self.name) or {}
                raise AssertionError(f"{probe} did not hold; the status is {model.get('status')}")
            await asyncio.sleep(POLL_S)
        return found

    # -- the end

    async def end(self) -> None:
        """Delete the Model, which leaves no object, process, listener or lock behind."""
        model = await self.find("models", self.name)
        if model is None:
            return
        await self.models.delete("models", self.name)
        await self.models.gone(model["metadata"]["uid"], LIMIT_S)

        async def ended() -> bool:
            return not below(self.site.node)

        await self.until(ended)
        assert [each for each in self.seen if _listens(*each)] == []
        assert _left_locks(self.site.directory) == []


def _left_locks(directory: Path) -> list[str]:
    """Locks of downloads; directories of other Pods may vanish meanwhile."""
    return [
        os.path.join(place, "lease.json") for place, _, names in os.walk(directory) if "lease.json" in names
    ]


def _collection(manifest: dict[str, Any], namespace: str) -> str:
    plural = f"{manifest['kind'].lower()}s"
    if manifest["kind"] in ("Namespace", "PersistentVolume"):
        return f"/api/v1/{plural}"
    return f"/api/v1/namespaces/{namespace}/{plural}"


def _listens(address: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, port), 5):
        return True
    return False


@contextlib.asynccontextmanager
async def world_of(
    site: Site, claimed: Claimed = lambda name, namespace, directory: []
) -> AsyncIterator[World]:
    """A namespace until the end of the block, where the Model is deleted and leaves nothing."""
    name = f"m{next(_numbers)}"
    namespace = f"{name}-{uuid.uuid4().hex[:8]}"
    async with (
        client_of(site.kubeconfig.read_text()) as http,
        httpx2.AsyncClient(trust_env=False, timeout=60) as gateway,
    ):
        world = World(site, http, gateway, namespace, name, claimed)
        await world.send("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"

        async def has_account() -> bool:
            return (await http.get(account)).status_code == 200

        await world.until(has_account)
        try:
            yield world
            await world.end()
        finally:
            await world.send("DELETE", f"/api/v1/namespaces/{namespace}")


_numbers = itertools.count()
