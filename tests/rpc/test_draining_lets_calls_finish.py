"""A server that drains accepts calls in transit, lets calls finish, and then closes; in virtual time."""

import asyncio

import pytest
from h2 import events
from memory_sockets import Peer, new_server
from rpc_calls import Echo, all_handlers

SERVICES = {"/test.Test/Echo": Echo}


@pytest.fixture
def story(in_virtual_time):
    def run(tell):
        all_handlers.clear()

        async def with_server(loop):
            server = new_server(SERVICES)
            await tell(server, loop)

        in_virtual_time(with_server)

    return run


class Goaways(Peer):
    """h2 takes no frames behind a GOAWAY, which servers send that drain: they are taken out before."""

    def received(self, data):
        self.goaways = getattr(self, "goaways", [])
        at = kept = 0
        passed = b""
        while at < len(data):
            end = at + 9 + int.from_bytes(data[at : at + 3], "big")
            if data[at + 3] == 7:
                self.goaways.append(int.from_bytes(data[at + 9 : at + 13], "big"))
                passed += data[kept:at]
                kept = end
            at = end
        super().received(passed + data[kept:])


def test_a_call_in_transit_is_accepted_and_finishes(story):
    """There are two GOAWAYs: one that accepts all, and one that names the last call."""

    async def tell(server, loop):
        peer = Goaways(server)
        first = peer.open(b"1")
        draining = asyncio.create_task(server.drain(30.0))
        await asyncio.sleep(0)
        second = peer.open(b"2")
        await asyncio.sleep(0.1)
        assert peer.goaways == [0x7FFFFFFF, second]
        third = peer.open(b"3")
        await asyncio.sleep(0.1)
        (refused,) = peer.of(events.StreamReset)
        assert (refused.stream_id, refused.error_code) == (third, 7)
        assert not peer.is_lost
        peer.end(first)
        await asyncio.sleep(5.0)
        assert not peer.is_lost
        peer.end(second)
        await draining
        assert peer.is_lost
        assert [peer.status(number) for number in (first, second)] == ["0", "0"]
        assert loop.now < 1010.0

    story(tell)


def test_a_client_that_does_not_answer_is_told_all_the_same(story):
    """After a second, the last call is named."""

    async def tell(server, loop):
        peer = Goaways(server)
        peer.answers = False
        number = peer.open(b"1")
        draining = asyncio.create_task(server.drain(30.0))
        await asyncio.sleep(0.5)
        assert peer.goaways == [0x7FFFFFFF]
        await asyncio.sleep(1.0)
        assert peer.goaways == [0x7FFFFFFF, number]
        peer.end(number)
        await draining
        assert peer.is_lost

    story(tell)


def test_calls_that_do_not_finish_are_cancelled_at_the_end_of_grace(story):
    """Their handlers hear of it."""

    async def tell(server, loop):
        peer = Goaways(server)
        peer.open(b"1")
        await server.drain(30.0)
        assert peer.is_lost
        assert 1030.0 <= loop.now < 1032.0
        await asyncio.sleep(0)
        assert all_handlers[0].heard == [b"1", "cancelled"]

    story(tell)


def test_idle_connections_close_at_once(story):
    """As soon as the client knows."""

    async def tell(server, loop):
        peer = Goaways(server)
        await asyncio.sleep(0.1)
        await server.drain(30.0)
        assert peer.is_lost
        assert peer.goaways == [0x7FFFFFFF, 0]
        assert loop.now < 1001.0

    story(tell)
