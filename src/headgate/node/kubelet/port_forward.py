"""`kubectl port-forward`: connections to a Pod's ports, each as a pair of streams.

For each connection, the client opens a stream for errors and one for data, which have the same requestID and
name the port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress

from headgate.node.kubelet.streams import Connection, Stream

PROTOCOL = "portforward.k8s.io"
CONNECT_S = 10.0
MAX_HALF_PAIRS = 64
_READ_BYTES = 32 << 10

Dial = Callable[[int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Connects to a port of the Pod; raises OSError."""


async def serve(connection: Connection, dial: Dial) -> None:
    """Forward until the client disconnects, which ends all forwarded connections."""
    waiting: dict[str, Stream] = {}
    async with asyncio.TaskGroup() as tasks:
        forwarding: set[asyncio.Task[None]] = set()
        async with aclosing(connection.streams()) as streams:
            async for stream in streams:
                number = stream.headers.get("requestid", "")
                other = waiting.pop(number, None)
                if other is None:
                    if len(waiting) >= MAX_HALF_PAIRS:
                        stream.reset()
                    else:
                        waiting[number] = stream
                    continue
                task = tasks.create_task(_forward(stream, other, dial))
                forwarding.add(task)
                task.add_done_callback(forwarding.discard)
        for task in forwarding:
            task.cancel()


async def _forward(one: Stream, other: Stream, dial: Dial) -> None:
    by_kind = {stream.headers.get("streamtype"): stream for stream in (one, other)}
    errors, data = by_kind.get("error"), by_kind.get("data")
    if errors is None or data is None:
        one.reset()
        other.reset()
        return
    errors.ignore_input()
    with suppress(ConnectionError):
        port = data.headers.get("port", "")
        try:
            if not port.isdecimal() or not 0 < int(port[:6]) < 1 << 16:
                raise ValueError(f"{port[:20]!r} is not a port")
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await dial(int(port))
        except (OSError, TimeoutError, ValueError) as error:
            await errors.write(f"cannot connect to port {port[:20]} of the Pod: {error}".encode())
        else:
            await _copy_both(data, reader, writer)
    errors.close()  # the client waits for it
    data.reset()


async def _copy_both(data: Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until the Pod has ended the connection, or one side has broken it."""
    try:
        sending = asyncio.create_task(_to_pod(data, writer))
        try:
            with suppress(ConnectionError):
                while piece := await reader.read(_READ_BYTES):
                    await data.write(piece)
        finally:
            sending.cancel()
            await asyncio.wait((sending,))
        data.close()
    finally:
        writer.close()


async def _to_pod(data: Stream, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await data.read():
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()
