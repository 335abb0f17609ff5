"""What the process really takes for bodies is what it counts, and it gives that back."""

import asyncio
import contextlib
import resource
import socket
import threading

import pytest

from headgate.gateway.workers import allocator

MB = 1 << 20
BODY = b'{"model":"m","prompt":"' + b"x" * (4 * MB - 25) + b'"}'
HEAD = b"POST /v1/completions HTTP/1.1\r\nhost: g\r\ncontent-length: %d\r\n\r\n" % len(BODY)
CLIENTS = 60


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


async def _upload(port: int, left_out: int) -> socket.socket:
    """Sends a body without its last bytes, and without a copy of it."""
    loop = asyncio.get_running_loop()
    sock = socket.socket()
    sock.setblocking(False)
    await loop.sock_connect(sock, ("127.0.0.1", port))
    with contextlib.suppress(ConnectionError):
        await loop.sock_sendall(sock, HEAD)
        await loop.sock_sendall(sock, memoryview(BODY)[: len(BODY) - left_out])
    return sock


class _Peak:
    """The most memory that was resident, looked at a thousand times a second."""

    def __enter__(self) -> "_Peak":
        self.bytes = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._is_over.wait(0.001):
            self.bytes = max(self.bytes, _resident_bytes())

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("left_out", [10, 0], ids=["amid its body", "queued"])
async def test_sixty_clients(start_gateway, eventually, left_out):
    """Their bodies are four times the bound. What is resident is at most twice the bound, as prompts are
    copied to be hashed, and a few copies of one body; once they have left, nothing of that."""
    allocator.return_large_blocks()
    settings = {
        "clients_max_body_bytes": 4 * MB,
        "clients_max_bodies_bytes": 64 * MB,
        "queue_no_endpoint_wait_s": 60.0,
    }
    gateway = await start_gateway(settings=settings)
    gateway.serve([])
    before = _resident_bytes()
    with _Peak() as peak:
        socks = await asyncio.gather(*(_upload(gateway.port, left_out) for _ in range(CLIENTS)))
        await eventually(lambda: gateway.metric("headgate_gateway_rejected_total"))
        await asyncio.sleep(0.1)
    assert gateway.proxy.bodies.held > 32 * MB
    assert peak.bytes - before < (2 * 64 + 16) * MB
    for sock in socks:
        sock.close()
    await eventually(lambda: not gateway.proxy.clients)
    assert not gateway.proxy.bodies.held
    await asyncio.sleep(0.05)
    assert _resident_bytes() - before < 32 * MB
