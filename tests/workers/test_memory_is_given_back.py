"""After a wave of uploads, a worker does not keep the memory that they took."""

import asyncio
import contextlib
import resource
from pathlib import Path

UPLOADS, AT_ONCE = 300, 20
PART = b"x" * 900_000
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ncontent-length: 8000000\r\n\r\n"
SMALL = b"GET /none HTTP/1.1\r\nhost: g\r\nx-long: %b\r\n\r\n" % (b"x" * 20_000)
MAY_GROW_BYTES = 100 << 20


def resident_bytes(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


async def test_after_uploads_that_were_aborted(start_gateway, connect, eventually):
    """Their pieces lie between what lives longer, where the C library would keep the gaps."""
    gateway = await start_gateway()
    (worker,) = gateway.workers()
    before = resident_bytes(worker)

    async def upload():
        _, writer = await connect(gateway)
        writer.write(HEAD + PART)
        return writer

    def held():
        return gateway.metric("headgate_gateway_held_body_bytes")

    writers = []
    for _ in range(UPLOADS // AT_ONCE):
        writers += await asyncio.gather(*(upload() for _ in range(AT_ONCE)))
        _, lasting = await connect(gateway)
        lasting.write(SMALL)
    await eventually(lambda: held() > 0.9 * UPLOADS * len(PART))
    assert resident_bytes(worker) - before > 2 * MAY_GROW_BYTES
    for writer in writers:
        with contextlib.suppress(OSError):
            writer.transport.abort()
    await eventually(lambda: held() == 0)
    await eventually(lambda: resident_bytes(worker) - before < MAY_GROW_BYTES)
