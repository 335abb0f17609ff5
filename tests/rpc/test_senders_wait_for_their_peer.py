"""Back-pressure: who sends more than the peer takes is told so, and hears when it may go on."""

import asyncio

import pytest
from rpc_calls import Handler, Received, all_handlers

from headgate import rpc

pytestmark = pytest.mark.every_loop

PIECE = b"x" * 10_000
PIECES = 3000


class Producer(Handler):
    """Sends 30 MB, as fast as the client takes them."""

    def __init__(self, call) -> None:
        super().__init__(call)
        self.left = PIECES
        self.waits = 0
        call.on_drained = self.produce

    def half_closed(self) -> None:
        self.produce()

    def produce(self) -> None:
        while self.left and self.call.is_writable:
            self.call.send(PIECE)
            self.left -= 1
        if self.left:
            self.waits += 1
        else:
            self.call.finish()


@pytest.fixture(autouse=True)
def _forget():
    all_handlers.clear()


async def test_a_server_sends_at_the_pace_of_its_client(serve, connect, eventually):
    """A paused client holds it up, and what is held is little."""
    server, port = await serve({"/test.Test/Produce": Producer})
    client = await connect(port)
    received = Received()
    call = client.call("/test.Test/Produce", received)
    call.pause()
    call.half_close()
    await eventually(lambda: all_handlers and all_handlers[0].waits)
    await asyncio.sleep(0.05)
    assert all_handlers[0].left > PIECES - 400
    assert server.statistics()["held_bytes"] < 600_000
    call.resume()
    assert (await asyncio.wait_for(received.ended, 30.0)).code == 0
    assert len(received.messages) == PIECES
    assert all_handlers[0].waits > 5
    assert server.statistics()["held_bytes"] == 0


async def test_a_client_sends_at_the_pace_of_its_server(serve, connect, eventually):
    """In the same way."""
    _, port = await serve({"/test.Test/Hold": Handler})
    client = await connect(port)
    received = Received()
    call = client.call("/test.Test/Hold", received)
    left = PIECES
    drained = asyncio.Event()
    call.on_drained = drained.set
    call.send(PIECE)
    await eventually(lambda: all_handlers)
    all_handlers[0].call.pause()
    while call.is_writable:
        call.send(PIECE)
        left -= 1
    assert left > PIECES - 400
    all_handlers[0].call.resume()
    while left:
        if not call.is_writable:
            drained.clear()
            await asyncio.wait_for(drained.wait(), 30.0)
        call.send(PIECE)
        left -= 1
    call.half_close()
    await eventually(lambda: all_handlers[0].heard[-1] == "half closed")
    assert len(all_handlers[0].heard) == PIECES + 2
    all_handlers[0].call.finish()
    assert (await received.ended).code == 0


async def test_a_call_that_takes_no_notice_is_ended(serve, connect):
    """When it would hold more than all calls together may."""
    limits = rpc.Limits(max_held_bytes=2_000_000)

    class Careless(Handler):
        def half_closed(self) -> None:
            for _ in range(PIECES):
                self.call.send(PIECE)
            super().half_closed()

    server, port = await serve({"/test.Test/Careless": Careless}, limits)
    client = await connect(port)
    received = Received()
    call = client.call("/test.Test/Careless", received)
    call.pause()
    call.half_close()
    assert (await asyncio.wait_for(received.ended, 30.0)).code == rpc.status.CANCELLED
    assert all_handlers[0].heard == ["cancelled", "half closed"]
    assert server.statistics()["held_bytes"] == 0
