"""Whatever happens between server and informer, in the end both have the same objects."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate import api
from headgate.cluster import Client, Informer

NAMES = st.sampled_from("ab")
OPERATIONS = st.sampled_from(
    ["put", "put", "delete", "remake", "drop", "forget", "down", "up", "up", "bookmark"]
)
STEPS = st.tuples(OPERATIONS, NAMES, st.booleans())
"""What happens, to which object, and whether the informer has time to see it before the next step."""


@pytest.fixture
def world(kit) -> Iterator[tuple[asyncio.Runner, Any, Client]]:
    """One server and client for all examples."""
    with asyncio.Runner() as runner:
        serving = kit.faulty_server()
        server = runner.run(serving.__aenter__())
        client = Client.from_url(server.url)
        yield runner, server, client
        runner.run(client.aclose())
        runner.run(serving.__aexit__(None, None, None))


def take(server, step: str, name: str) -> None:
    if step == "put":
        server.put(name)
    elif step == "delete" and name in server.objects:
        server.delete(name)
    elif step == "remake":
        take(server, "delete", name)
        server.put(name)
    elif step in ("drop", "forget"):
        getattr(server, step)()
    elif step in ("down", "up"):
        server.down = step == "down"
        server.drop()
    elif step == "bookmark":
        server.send("BOOKMARK", {})


@given(steps=st.lists(STEPS, min_size=8, max_size=20), first=st.sets(NAMES))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_history_ends_equal_to_the_server(world, kit, steps, first):
    """After any drops, outages and expiries the copy, and the sum of what was told, are the server's."""
    runner, server, client = world
    runner.run(live_through(kit, server, client, steps, first))


async def catch_up(kit, informer, server) -> None:
    """One more change, so that waiting for equality is waiting for whatever is still on its way."""
    server.put("mark")
    await kit.eventually(lambda: kit.state(informer) == server.state())


async def live_through(kit, server, client, steps, first) -> None:
    server.begin()
    for name in sorted(first):
        server.put(name)
    informer = Informer(client, api.ConfigMap, pacing=kit.quick)
    journal = kit.Journal()
    informer.subscribe(journal)
    async with kit.running(informer.run()):
        for step, name, seen in steps:
            take(server, step, name)
            if seen and not server.down:
                await catch_up(kit, informer, server)
        server.down = False
        await catch_up(kit, informer, server)
    assert journal.known == server.state()
    assert informer.statistics().handler_failures == 0
