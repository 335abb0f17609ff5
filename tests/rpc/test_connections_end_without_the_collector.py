"""However calls and connections end, they are freed at once, without a garbage collection."""

import asyncio
import gc

import pytest
from memory_sockets import Peer, new_server
from rpc_calls import Received, all_handlers

from headgate import rpc

pytestmark = pytest.mark.every_loop

TIMES = 5


class Pausing:
    """A handler that refers to its call, as most do, and does not finish."""

    def __init__(self, call) -> None:
        self.call = call
        call.on_drained = self.drained

    def drained(self) -> None: ...

    def message(self, data: bytes) -> None:
        if data == b"finish":
            self.call.finish()
        elif data == b"break":
            raise ZeroDivisionError
        elif data == b"fill":
            self.call.send(b"x" * 1_000_000)

    def half_closed(self) -> None: ...

    def cancelled(self) -> None: ...


SERVICES = {"/test.Test/Echo": Pausing}


@pytest.fixture
def garbage():
    """Objects of the room that a collection had to free since the test began."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)

    def count() -> list[str]:
        gc.collect()
        found = [type(each).__qualname__ for each in gc.garbage if "headgate.rpc" in type(each).__module__]
        gc.garbage.clear()
        return found

    yield count
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()
    all_handlers.clear()


def _ends(peer, how) -> None:
    number = peer.open(b"fill")
    if how == "resets":
        peer.h2.reset_stream(number, 8)
    elif how == "closes":
        peer.socket.abort()
    elif how == "is hostile":
        peer.connection.data_received(b"\xff" * 30)
    else:
        peer.h2.send_data(number, b"\0\0\0\0" + bytes([len(how)]) + how.encode())
    peer.flush()


@pytest.mark.parametrize("how", ["finish", "break", "resets", "closes", "is hostile"])
async def test_a_server_keeps_nothing(garbage, how):
    """Of calls with unsent messages, and of their connection."""
    server = new_server(SERVICES)
    for _ in range(TIMES):
        peer = Peer(server)
        _ends(peer, how)
        await asyncio.sleep(0)
        peer.socket.abort()
        await asyncio.sleep(0.01)
        assert server.statistics()["connections"] == 0
        assert server.statistics()["held_bytes"] == 0
        peer.connection = peer.socket = None
    assert garbage() == []


@pytest.mark.parametrize("how", ["the server ends it", "the client cancels it", "the connection is closed"])
async def test_a_client_keeps_nothing(serve, connect, garbage, how):
    """Of calls, and of its connection."""
    _, port = await serve()
    for _ in range(TIMES):
        client = await connect(port)
        received = Received()
        call = client.call("/test.Test/Echo", received, timeout_s=60.0)
        call.on_drained = lambda: None
        call.send(b"hello")
        if how == "the server ends it":
            call.half_close()
            assert (await received.ended).code == 0
        elif how == "the client cancels it":
            call.cancel()
        else:
            client.close()
            assert (await received.ended).code == rpc.status.UNAVAILABLE
        client.close()
        await asyncio.sleep(0.02)
    assert garbage() == []
