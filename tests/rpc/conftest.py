"""A gRPC server of ours, on both event loops; grpcio as its client, and as the server of our client."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import grpc
import pytest
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent))

from rpc_calls import collect, echo, hold

from headgate import loop_turns, rpc

PATIENCE_S = 30.0


def pytest_asyncio_loop_factories(config, item):
    """Tests of sockets run on uvloop; those of what transports do on asyncio's loop too."""
    both = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return both if item.get_closest_marker("every_loop") else {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., object]]:
    """Starts servers of ours: returns one, and its port."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(services=None, limits=None, tls=None) -> tuple[rpc.Server, int]:
            turns = loop_turns.Turns(asyncio.get_running_loop())
            usual: Mapping[str, object] = {
                "/test.Test/Echo": echo,
                "/test.Test/Collect": collect,
                "/test.Test/Hold": hold,
            }
            server = rpc.Server(services or usual, turns, limits, tls)
            stack.push_async_callback(server.close)
            return server, await server.listen("127.0.0.1", 0)

        yield start


@pytest.fixture
async def grpcio_channel() -> AsyncIterator[Callable[..., grpc.aio.Channel]]:
    """Makes channels of grpcio to a port."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(port: int, *options, credentials=None) -> grpc.aio.Channel:
            address = f"127.0.0.1:{port}"
            if credentials is None:
                made = grpc.aio.insecure_channel(address, options)
            else:
                made = grpc.aio.secure_channel(address, credentials, options)
            stack.push_async_callback(made.close)
            return made

        yield make


@pytest.fixture
async def connect() -> AsyncIterator[Callable[..., object]]:
    """Connects clients of ours to a port."""
    clients: list[rpc.Client] = []

    async def make(port: int, **options) -> rpc.Client:
        turns = loop_turns.Turns(asyncio.get_running_loop())
        clients.append(await rpc.connect("127.0.0.1", port, turns, **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close()
    await asyncio.sleep(0.01)


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], object]:
    """Waits until something is so."""

    async def wait(is_so) -> None:
        end = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < end, "it never came to be"
            await asyncio.sleep(0.002)

    return wait
