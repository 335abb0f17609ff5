"""Ten thousand aborted uploads leave no memory behind, without a garbage collection."""

import asyncio
import gc
import resource
import socket
import struct
from collections import Counter

import pytest

UPLOADS, WARM_UP, AT_ONCE = 10_000, 1000, 20
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ncontent-length: 30000000\r\n\r\n"
PART = b"x" * 60_000
MAY_GROW_BYTES = 32 << 20
"""If the parts of the bodies stayed, it would be 270 MB and more."""
COUNTED = {
    "ClientConnection",
    "RequestReader",
    "Exchange",
    "Request",
    "UpstreamConnection",
    "HttpRequestParser",
}


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def _alive() -> Counter[str]:
    return Counter(type(each).__name__ for each in gc.get_objects() if type(each).__name__ in COUNTED)


def _upload(port: int, count: int) -> None:
    """Sends parts of bodies. Every other connection is reset; the others are closed in good order."""
    for place in range(count):
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(HEAD + PART)
            if place % 2:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.timeout(180)
async def test_ten_thousand(gateway, eventually, garbage):
    """Neither objects nor resident memory grow with their number."""
    alive = _alive()
    for count in (WARM_UP, UPLOADS - WARM_UP):
        resident = _resident_bytes()
        each = count // AT_ONCE
        await asyncio.gather(*(asyncio.to_thread(_upload, gateway.port, each) for _ in range(AT_ONCE)))
        await eventually(lambda: not gateway.shell.clients.all)
    assert _alive() == alive
    assert _resident_bytes() - resident < MAY_GROW_BYTES
    assert not garbage()
