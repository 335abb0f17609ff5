"""Connections whose peer is silent, stuck or half done end in time; all in virtual time."""

import asyncio

import pytest
from h2 import events
from h2_sides import HEADERS, framed
from memory_sockets import Peer, new_server
from rpc_calls import Echo, Handler, all_handlers

from headgate import rpc

SERVICES = {"/test.Test/Echo": Echo, "/test.Test/Hold": Handler}


@pytest.fixture
def story(in_virtual_time):
    """Tells a story of a server, which sweeps its connections all the time."""

    def run(tell, limits=None):
        all_handlers.clear()

        async def with_server(loop):
            server = new_server(SERVICES, limits)
            server.start_sweeping()
            await tell(server)
            await server.close()

        in_virtual_time(with_server)

    return run


def test_a_client_that_does_not_greet_is_disconnected(story):
    """After the time for a handshake."""

    async def tell(server):
        peer = Peer(server, greets=False)
        await asyncio.sleep(9.0)
        assert not peer.is_lost
        await asyncio.sleep(3.0)
        assert peer.is_lost
        assert server.statistics()["connections"] == 0

    story(tell)


def test_a_silent_client_is_asked_for_a_sign_of_life(story):
    """And stays connected for as long as it answers."""

    async def tell(server):
        peer = Peer(server)
        await asyncio.sleep(1000.0)
        assert not peer.is_lost
        assert 10 < len(peer.of(events.PingReceived)) < 18
        peer.answers = False
        await asyncio.sleep(90.0)
        assert peer.is_lost

    story(tell)


def test_a_frame_must_be_complete_in_time(story):
    """Even if bytes of it trickle in."""

    async def tell(server):
        peer = Peer(server)
        number = peer.open()
        peer.connection.data_received((1000).to_bytes(3, "big") + b"\0\0" + number.to_bytes(4, "big"))
        for second in range(65):
            assert not peer.is_lost or second > 58
            peer.connection.data_received(b"\0")
            await asyncio.sleep(1.0)
        assert peer.is_lost
        assert all_handlers[0].heard == ["cancelled"]

    story(tell)


def test_a_message_must_be_complete_in_time(story):
    """Its call ends, and no other; what was held of it is held no longer."""

    async def tell(server):
        peer = Peer(server)
        slow = peer.open()
        peer.h2.send_data(slow, b"\0\0\0\xff\xff")
        for _ in range(70):
            if peer.status(slow) is None:
                peer.h2.send_data(slow, b"x")
                peer.flush()
            await asyncio.sleep(1.0)
        assert peer.status(slow) == str(rpc.status.DEADLINE_EXCEEDED)
        assert all_handlers[0].heard == ["cancelled"]
        assert server.statistics()["held_bytes"] == 0
        quick = peer.open(b"hello")
        peer.end(quick)
        await asyncio.sleep(0.1)
        assert peer.status(quick) == "0"

    story(tell)


def test_a_paused_call_may_have_an_incomplete_message(story):
    """For as long as it is paused: it is not the client that is slow."""

    async def tell(server):
        peer = Peer(server)
        number = peer.open()
        peer.h2.send_data(number, framed(b"x" * 100)[:50])
        peer.flush()
        all_handlers[0].call.pause()
        await asyncio.sleep(200.0)
        assert peer.status(number) is None
        all_handlers[0].call.resume()
        peer.h2.send_data(number, framed(b"x" * 100)[50:])
        peer.flush()
        assert all_handlers[0].heard == [b"x" * 100]

    story(tell)


def test_a_call_whose_messages_are_not_taken_is_cancelled(story):
    """Others of the connection go on."""

    async def tell(server):
        peer = Peer(server)
        stuck, other = peer.open(), peer.open()
        await asyncio.sleep(1.0)
        all_handlers[0].call.send(b"x" * 100_000)  # more than its window, which is never opened
        await asyncio.sleep(50.0)
        assert all_handlers[0].heard == []
        await asyncio.sleep(15.0)
        assert all_handlers[0].heard == ["cancelled"]
        assert server.statistics()["held_bytes"] == 0
        (reset,) = peer.of(events.StreamReset)
        assert reset.stream_id == stuck
        peer.h2.increment_flow_control_window(1 << 20)
        peer.h2.send_data(other, framed(b"hello"))
        peer.end(other)
        await asyncio.sleep(0.1)
        assert peer.status(other) == "0"

    story(tell)


def test_a_call_ends_at_its_deadline(story):
    """With its status, and its handler hears of it."""

    async def tell(server):
        peer = Peer(server)
        number = peer.h2.get_next_available_stream_id()
        peer.h2.send_headers(number, [*HEADERS, ("grpc-timeout", "1500m")])
        peer.flush()
        await asyncio.sleep(1.4)
        assert all_handlers[0].heard == []
        await asyncio.sleep(0.2)
        assert all_handlers[0].heard == ["cancelled"]
        assert peer.status(number) == str(rpc.status.DEADLINE_EXCEEDED)

    story(tell)


def test_a_client_that_reads_nothing_is_not_waited_for(story):
    """When the connection is closed."""

    async def tell(server):
        peer = Peer(server)
        peer.open()
        peer.socket.is_stuck = True
        peer.connection.end(0, "it is over")
        await asyncio.sleep(4.0)
        assert not peer.is_lost
        await asyncio.sleep(3.0)
        assert peer.is_lost
        assert all_handlers[0].heard == ["cancelled"]

    story(tell)


def test_a_client_that_asks_without_reading_is_disconnected(story):
    """It may have 4 MB of replies in the socket's buffer."""

    async def tell(server):
        peer = Peer(server)
        peer.socket.is_stuck = True
        peer.h2.increment_flow_control_window(1 << 30)
        peer.flush()
        number = 0
        while not peer.is_lost and number < 1000:
            peer.open(b"x" * 16_000)
            number += 1
            await asyncio.sleep(0)
        assert peer.is_lost
        assert peer.socket.unsent < 6 << 20

    story(tell)
