"""The rows of memory: idle streams, idle connections, routes."""

import asyncio
import os
from pathlib import Path

import pytest

import load
import proxies
import scenarios
import upstream
from proxies.envoy import Envoy

ENGINE = ("127.0.0.1", 8000)


@pytest.fixture
async def address(unused_tcp_port: int):
    servers = await upstream.serve([("127.0.0.1", unused_tcp_port)], 0.005)
    yield f"127.0.0.1:{unused_tcp_port}"
    for server in servers:
        server.close()


@pytest.fixture(autouse=True)
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "_SETTLE_S", 0.01)


@pytest.mark.parametrize("kind", [load.IDLE_STREAM, load.IDLE_CONNECTION])
async def test_idle_connections_stay_open_and_share_their_memory(kind: load.Idle, address: str) -> None:
    """All are opened, none is lost, and what the process grew by is divided among them."""
    memory = iter([1000.0, 1640.0])
    window = await load.idle(address, 80, kind, lambda: 0.0, lambda: next(memory))
    assert window.failures == ()
    assert window.work == 80
    assert window.kb_each == 8.0


@pytest.mark.parametrize(("path", "failed"), [(load.CHAT_PATH, 0), ("/elsewhere", 4)])
async def test_routes_cost_what_the_proxy_has_more_with_them(
    path: str, failed: int, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is started without and with them. A route that does not take its request is a failure."""
    memory_kb = {0: 5000.0, 4: 5100.0}
    started: list[int] = []

    def start(routes: int) -> scenarios.Target:
        started.append(routes)
        return scenarios.Target(
            address, os.getpid(), tmp_path, lambda route: (path, load.IDLE_CONNECTION.body)
        )

    monkeypatch.setattr(scenarios.Target, "memory_kb", lambda _: memory_kb[started[-1]])
    settings = scenarios.Settings(1, 1, 1, 1, 1, routes=4, repeat=1, pin=False)
    [row] = [scenario for scenario in scenarios.SCENARIOS if scenario.name == "routes"]
    window = await asyncio.to_thread(row.run, start, settings)
    assert started == [0, 4]
    assert (window.work, window.kb_each) == (4, 25.0)
    assert len(window.failures) == failed


def test_each_route_has_a_question_that_only_it_takes() -> None:
    """By the path for a proxy that reads no JSON, by the model for Headgate."""
    envoy = Envoy()
    configuration = envoy._configuration(1, [ENGINE], routes=3)
    manager = configuration["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]
    routes = manager["typed_config"]["route_config"]["virtual_hosts"][0]["routes"]
    path, _ = envoy.question(1)
    assert [path.startswith(route["match"]["prefix"]) for route in routes] == [False, True, False, True]
    assert routes[1]["match"]["prefix"] + load.CHAT_PATH.removeprefix("/") == path
    path, body = proxies.Headgate().question(1)
    assert path == load.CHAT_PATH
    assert b'"model":"route-000001"' in body
