"""Thousands of clients that leave at once are closed in slices, so that others are served in between."""

import asyncio

import pytest

from headgate import loop_turns


@pytest.mark.counts_calls
async def test_idle_clients_that_leave_at_once_are_all_closed(
    start_gateway, start_endpoint, eventually, monkeypatch
):
    """A few in each turn of the loop."""
    monkeypatch.setattr(loop_turns, "CLOSED_AT_ONCE", 3)
    endpoint = await start_endpoint(answer=b"served")
    gateway = await start_gateway(endpoint)
    waiting = []
    add, closings = gateway.shell.services.turns.closings.add, gateway.shell.services.turns.closings

    def added(transport):
        add(transport)
        waiting.append(closings.statistics()["waiting"])

    monkeypatch.setattr(closings, "add", added)
    pairs = [await asyncio.open_connection("127.0.0.1", gateway.port) for _ in range(20)]
    await eventually(lambda: len(gateway.shell.clients.all) == 20)
    for _, writer in pairs:
        writer.close()
    await eventually(lambda: not gateway.shell.clients.all)
    assert len(waiting) == 20
    assert closings.statistics() == {"waiting": 0}
    for reader, _ in pairs:
        assert await reader.read() == b""


async def test_connections_are_closed_a_few_in_a_turn(monkeypatch):
    """All at once only where the gateway ends."""
    monkeypatch.setattr(loop_turns, "CLOSED_AT_ONCE", 3)
    closed = []

    class Transport:
        def close(self):
            closed.append(self)

    closings = loop_turns.Closings(asyncio.get_running_loop())
    for _ in range(10):
        closings.add(Transport())
    counts = []
    for _ in range(5):
        await asyncio.sleep(0)
        counts.append(len(closed))
    assert counts == [3, 6, 9, 10, 10]
    for _ in range(10):
        closings.add(Transport())
    closings.close_all()
    assert len(closed) == 20
