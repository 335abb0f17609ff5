"""A gateway that serves a Gateway on a loopback port, with Services and pools of scripted endpoints."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "routing" / "gateway_api" / "driver"))
sys.path.insert(0, str(Path(__file__).parent / "driver"))

import gateway_objects as objects

from headgate import api, routing
from headgate.api.discovery_kinds import EndpointSlice
from headgate.gateway.gateway_api import Ports
from headgate.routing import gateway_api

POOL = {"group": "inference.networking.k8s.io", "kind": "InferencePool"}


def service(name: str, *endpoints: Any, **port: Any) -> list[Any]:
    """A Service and its EndpointSlices, one for each endpoint."""
    slices = [
        objects.decoded(
            EndpointSlice,
            f"{name}-{i}",
            metadata={"labels": {"kubernetes.io/service-name": name}},
            addressType="IPv4",
            endpoints=[{"addresses": ["127.0.0.1"]}],
            ports=[{"name": "", "port": endpoint.port}],
        )
        for i, endpoint in enumerate(endpoints)
    ]
    return [objects.decoded(api.Service, name, spec={"ports": [{"port": 80, **port}]}), *slices]


def to(name: str, weight: int = 1, **rest: Any) -> dict[str, Any]:
    """A reference to port 80 of a Service."""
    return {"name": name, "port": 80, "weight": weight, **rest}


class Front:
    """A Gateway with one listener, and whatever objects it is told to serve."""

    def __init__(self, gateway: Any, port: int) -> None:
        self.gateway = gateway
        self.port = port
        self.listener: dict[str, Any] = {"name": "http", "port": port, "protocol": "HTTP"}
        self.ports = Ports(gateway.shell.gateways, "127.0.0.1")
        self._pools: dict[api.ObjectRef, routing.Pool] = {}

    def pool(self, name: str, *endpoints: Any, **pool: Any) -> dict[str, Any]:
        """Adds an InferencePool of these endpoints; returns a reference to it."""
        key = api.ObjectRef("InferencePool", "shop", name)
        made = tuple(
            routing.Endpoint(f"shop/{name}-{i}", "127.0.0.1", e.port) for i, e in enumerate(endpoints)
        )
        self._pools[key] = routing.Pool(key=key, endpoints=made, **pool)
        return {**POOL, "name": name}

    async def serve(
        self, *given: Any, listeners: list[dict[str, Any]] | None = None, **snapshot: Any
    ) -> None:
        """Serves these objects, beside the pools, from now on."""
        if self._pools:
            self.gateway.shell.use(routing.Snapshot(pools=self._pools, **snapshot))
            self.gateway.shell.plane.is_ready = True
        flat = [each for one in given for each in (one if isinstance(one, list) else [one])]
        front = objects.gateway("front", *(listeners or [self.listener]))
        world = objects.world(front, *flat)
        self.ports.use(gateway_api.Translator().translate(world, self._pools).entry_points)
        await self.ports.apply()

    async def route(self, *rules: dict[str, Any], objects_: list[Any] | None = None, **rest: Any) -> None:
        """Serves one route."""
        await self.serve(objects.route("r", *rules, **rest), *(objects_ or []))

    async def ask(self, path: str = "/", method: str = "GET", body: bytes = b"", **headers: str) -> Any:
        """One request on a connection of its own."""
        client = await self.connect()
        client.send(message(path, method, body, **headers))
        response = await client.response(has_body=method != "HEAD")
        client.close()
        return response

    async def connect(self) -> Any:
        self.gateway.port = self.port
        return await self.gateway.connect()


def message(path: str = "/", method: str = "GET", body: bytes = b"", **headers: str) -> bytes:
    """The bytes of a request."""
    headers = {"host": "shop.example", **headers}
    if body or method == "POST":
        headers.setdefault("content-length", str(len(body)))
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


@pytest.fixture(name="message")
def _message() -> Callable[..., bytes]:
    return message


@pytest.fixture(name="service")
def _service() -> Callable[..., list[Any]]:
    return service


@pytest.fixture(name="to")
def _to() -> Callable[..., dict[str, Any]]:
    return to


@pytest.fixture
async def start_front(
    start_gateway: Callable[..., Awaitable[Any]], held_port: Callable[[], int]
) -> AsyncIterator[Callable[..., Awaitable[Front]]]:
    """Starts a gateway with these settings, which serves a Gateway once it has objects."""
    started: list[Front] = []

    async def start(**settings: object) -> Front:
        front = Front(await start_gateway(settings=settings), held_port())
        started.append(front)
        return front

    yield start
    for front in started:
        front.ports.close()
        await asyncio.sleep(0)


@pytest.fixture
async def front(start_front: Callable[..., Awaitable[Front]]) -> Front:
    return await start_front()
