"""Two pickers that are peers treat their queued requests as if they were in one queue."""

import asyncio

import pytest
from picker_world import OBJECTIVES, completion, pod, pool

from headgate.dataplane.settings import Peers, Queue


async def until(condition):
    """Wait until it holds; fails after a long time only."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
async def two(picker, unused_tcp_port_factory):
    """Two pickers of one Pod, which serves three requests at a time."""
    ports = [unused_tcp_port_factory() for _ in range(2)]
    addresses = tuple(f"127.0.0.1:{port}" for port in ports)
    queue = Queue(detector="concurrency-detector", max_in_flight=3, max_requests=10)
    worlds, running = [], []
    for port in ports:
        world = await picker(peers=Peers(addresses=addresses, port=port), queue=queue)
        world.apply(pool(), *OBJECTIVES, pod(1))
        peering = world.shell.engines.peering
        await peering.start()
        running.append(asyncio.ensure_future(peering.peers.run()))
        worlds.append(world)
    await until(lambda: all(each.shell.engines.peering.statistics().get("members") for each in worlds))
    yield worlds
    for task in running:
        task.cancel()
    await asyncio.wait(running)


async def queued(world, **headers):
    proxy = await world.stream()
    proxy.headers(**headers)
    proxy.body(completion())
    return proxy


async def test_the_more_important_request_goes_first_wherever_it_waits(two):
    """The picker whose request ends lets that of the other go first."""
    first, second = two
    busy = [await first.ask() for _ in range(3)]
    await until(lambda: second.loads[0].requests == 3)
    low = [await queued(first) for _ in range(2)]
    high = await queued(second, x_gateway_inference_objective="my-model")
    await until(lambda: (first.shell.queues.held, second.shell.queues.held) == (2, 1))
    await asyncio.sleep(0.3)  # until both have reported what is queued
    await busy[0].serve(b"{}")
    async with asyncio.timeout(10):
        assert (await high.reply()).address is not None
    assert first.shell.queues.held == 2
    await busy[1].serve(b"{}")
    async with asyncio.timeout(10):
        assert (await low[0].reply()).address is not None


async def test_a_limit_of_the_queue_holds_for_both(two):
    """Ten requests are queued in all, but for those that come between two reports."""
    first, second = two
    for world in two:
        for _ in range(3):
            await queued(world)
    await asyncio.sleep(0.3)
    for _ in range(8):
        for world in two:
            await queued(world)
            await asyncio.sleep(0.15)
    assert 8 <= first.shell.queues.held + second.shell.queues.held <= 11
