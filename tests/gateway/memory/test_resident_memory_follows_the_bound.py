"""The memory that the process uses for bodies is what it counts, and is returned afterwards."""

import asyncio
import contextlib
import ctypes
import resource
import socket
import threading
from types import SimpleNamespace

import pytest

from headgate import allocator

MB = 1 << 20
BOUND = 64 * MB
SLACK = 16 * MB
"""For the connections themselves, and for what bodies have in reserve as they grow."""
AT_ONCE = 5


def _allocated_bytes() -> int:
    """What is in use, without what tests before this one have left free in the heap and around it."""
    try:
        look = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        with open("/proc/self/statm") as file:  # of another C library
            return int(file.read().split()[1]) * resource.getpagesize()
    look.restype = allocator.Heap
    heap = look()
    return int(heap.uordblks + heap.hblkhd)


def _body(size: int) -> bytes:
    body = b'{"model":"m","stream":true,"prompt":""}'
    return body[:-2] + b"x" * (size - len(body)) + body[-2:]


async def _upload(port: int, body: bytes, left_out: int) -> socket.socket:
    """Sends a body without its last bytes, and without a copy of it."""
    loop = asyncio.get_running_loop()
    sock = socket.socket()
    sock.setblocking(False)
    await loop.sock_connect(sock, ("127.0.0.1", port))
    head = b"POST /v1/completions HTTP/1.1\r\nhost: g\r\ncontent-length: %d\r\n\r\n" % len(body)
    with contextlib.suppress(ConnectionError):
        await loop.sock_sendall(sock, head)
        await loop.sock_sendall(sock, memoryview(body)[: len(body) - left_out])
    return sock


class _Silent(asyncio.Protocol):
    """An endpoint that takes requests, keeps nothing of them, and does not answer."""


@pytest.fixture
async def silent():
    server = await asyncio.get_running_loop().create_server(_Silent, "127.0.0.1", 0)
    yield SimpleNamespace(port=server.sockets[0].getsockname()[1])
    server.close()


class _Peak:
    """The most memory that was in use, looked at a thousand times a second."""

    def __enter__(self) -> "_Peak":
        self.bytes = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._is_over.wait(0.001):
            self.bytes = max(self.bytes, _allocated_bytes())

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("state", ["amid its body", "queued", "sent"])
@pytest.mark.parametrize("size", [4 * MB, MB // 2, 60_000], ids=["4 MB", "500 KB", "60 KB"])
async def test_bodies_of_many_clients(start_gateway, eventually, silent, state, size):
    """Their bodies come to more than the bound, and take that much memory and a little more. Once they have
    left, nothing of it is in use."""
    allocator.return_large_blocks()
    settings = {
        "clients_max_body_bytes": 4 * MB,
        "clients_max_bodies_bytes": BOUND,
        "endpoints_max_connections": 2000,
        "queue_no_endpoint_wait_s": 60.0,
    }
    gateway = await start_gateway(settings=settings)
    gateway.serve([silent] if state == "sent" else [], model="served")
    body = _body(size)
    before = _allocated_bytes()
    socks = []
    with _Peak() as peak:
        while not gateway.metric("headgate_gateway_rejected_total"):
            uploads = (_upload(gateway.port, body, 10 * (state == "amid its body")) for _ in range(AT_ONCE))
            socks += await asyncio.gather(*uploads)
        exchanges = [client.exchange for client in gateway.shell.clients.all if client.exchange is not None]
        await eventually(lambda: all(each.life.phase != "reading" for each in exchanges))
    assert gateway.shell.services.bodies.held > BOUND // 2
    assert peak.bytes - before < BOUND + SLACK
    for sock in socks:
        sock.close()
    await eventually(lambda: not gateway.shell.clients.all)
    assert not gateway.shell.services.bodies.held
    await eventually(lambda: _allocated_bytes() - before < SLACK)


async def test_a_long_list_of_models_is_shared(start_gateway, eventually, silent):
    """Clients that do not read the list hold the same one: it is not copied for each of them."""
    gateway = await start_gateway()
    gateway.serve([silent], model="served")
    gateway.shell.services.models._body = b"[%b]" % (b" " * 8 * MB)
    before = _allocated_bytes()
    socks = []
    for _ in range(30):
        sock = socket.create_connection(("127.0.0.1", gateway.port))
        sock.setblocking(False)
        sock.send(b"GET /v1/models HTTP/1.1\r\nhost: g\r\n\r\n")
        socks.append(sock)
    await eventually(lambda: sum(client.is_paused for client in gateway.shell.clients.all) == len(socks))
    assert _allocated_bytes() - before < 4 * 8 * MB
    for sock in socks:
        sock.close()
    await eventually(lambda: not gateway.shell.clients.all)


def test_free_memory_is_returned_when_it_has_become_free():
    """Also where nothing was free the first time that much was resident, as pages were held."""
    memory = allocator.FreeMemory(100 * MB)

    def is_worth(resident, free):
        return memory.is_worth_returning(resident * MB, lambda: free * MB)

    assert not is_worth(150, 50)
    assert not is_worth(570, 10), "all is in use"
    assert is_worth(570, 440)
    memory.returned(140 * MB, 430 * MB)
    assert not is_worth(140, 430), "free, and not resident"
    assert not is_worth(150, 430)
    assert not is_worth(200, 370)
    assert is_worth(200, 440), "half of it was used and is free again"
    memory.returned(140 * MB, 430 * MB)
    assert is_worth(400, 430), "used and free again between two looks"


def test_looking_for_free_memory_is_spared_where_little_is_resident():
    """It takes milliseconds where the heap is in many pieces."""
    memory = allocator.FreeMemory(100 * MB)
    assert not memory.is_worth_returning(150 * MB, lambda: pytest.fail("not called"))


def test_what_is_free_is_told():
    """By glibc; by the resident size elsewhere."""
    assert 0 < allocator.free_bytes() < 1 << 40
