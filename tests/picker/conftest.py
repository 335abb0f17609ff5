"""Fixtures: pickers on loopback ports; the rest is in `picker_world`."""

import asyncio
import contextlib
import random
import sys
from pathlib import Path

import msgspec
import pytest
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent))

import envoy_process
import envoy_rig
from picker_world import OBJECTIVES, World, pool

from headgate import extproc, loop_turns, rpc
from headgate.dataplane.records.recorder import Recorder
from headgate.picker import reference_gauges as gauges
from headgate.picker.reference_metrics import ReferenceMetrics
from headgate.picker.settings import Choices, PickerSettings, PoolNames
from headgate.picker.shell import Shell
from headgate.telemetry import Registry


def pytest_asyncio_loop_factories(config, item):
    """Tests of sockets run on uvloop, as pickers do."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def picker():
    """Starts pickers; keyword arguments are `choices` and `pools`, or sections."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(choices=None, pools=None, **sections) -> World:
            settings = PickerSettings(
                pools=PoolNames(**(pools or {"names": ("pool",)})), choices=Choices(**(choices or {}))
            )
            settings = msgspec.structs.replace(settings, **sections)
            loop, registry = asyncio.get_running_loop(), Registry()
            recorder, reference = Recorder(registry, None), ReferenceMetrics(registry)
            shell = Shell(settings, recorder, loop, random.Random(7), reference)
            gauges.add_gauges(registry, shell)
            stack.push_async_callback(shell.close)
            health = rpc.health.services({}, lambda: shell.is_ready)
            server = rpc.Server({extproc.PATH: shell.open, **health}, loop_turns.Turns(loop))
            stack.push_async_callback(server.close)
            world = World(shell, await server.listen("127.0.0.1", 0), registry)
            world.server = server

            async def close():
                for client in world.clients:
                    client.close()

            stack.push_async_callback(close)
            return world

        yield start


@pytest.fixture
async def world(picker):
    """A picker with one pool of three Pods."""
    return (await picker()).apply(pool(), *OBJECTIVES)


@pytest.fixture
async def rig(picker, tmp_path, unused_tcp_port_factory):
    """Makes an Envoy with engines, and a picker."""
    async with envoy_rig.making(picker, tmp_path, unused_tcp_port_factory) as make:
        yield make


def pytest_report_header():
    if envoy_process.find():
        return []
    return ["Tests that need Envoy are skipped: install it, or run tools/fetch_envoy.sh"]
