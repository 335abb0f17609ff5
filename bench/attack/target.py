"""The install under attack as attackers see it, and how they count outcomes."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass

Outcomes = Counter[str]
"""Number of attempts by outcome: a status code, "reset", "closed", "held", "sent"."""


@dataclass(frozen=True)
class Target:
    """Addresses of one install; all of them are on loopback."""

    port: int
    metrics_port: int
    admin_port: int
    admin_kubeconfig: str
    """The administrator's, whose routes the victim uses."""
    user_kubeconfig: str
    """For a read-only token."""
    writer_kubeconfig: str
    """For a token that may write."""
    until: float = 0.0
    """`time.monotonic()` at which the attack ends."""

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.until


class Wire:
    """A raw connection: writes bytes, and reads the status of a response."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, port: int, tls: ssl.SSLContext | None = None) -> Wire:
        reader, writer = await asyncio.wait_for(
            asyncio.open_connection("127.0.0.1", port, ssl=tls, limit=1 << 20), 10
        )
        return cls(reader, writer)

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def status(self, timeout_s: float = 30.0) -> str:
        """The status code of the next response; reads its head, but not its body."""
        try:
            head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), timeout_s)
        except TimeoutError:
            return "no response"
        except asyncio.IncompleteReadError:
            return "closed"
        return head.split(b" ", 2)[1].decode()

    def reset(self) -> None:
        self.writer.transport.abort()


@contextlib.asynccontextmanager
async def sending(wire: Wire, *pieces: bytes) -> AsyncIterator[None]:
    """Send concurrently within this context; whatever has not been sent at its end is discarded."""
    task = asyncio.ensure_future(wire.send(*pieces))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def repeat(
    target: Target, concurrency: int, attempt: Callable[[], Coroutine[None, None, str]]
) -> Outcomes:
    """Make attempts repeatedly, `concurrency` at a time, until the attack is over."""
    outcomes: Outcomes = Counter()

    async def one() -> None:
        while not target.is_over:
            outcomes[await outcome(attempt())] += 1

    await asyncio.gather(*(one() for _ in range(concurrency)))
    return outcomes


async def outcome(attempt: Coroutine[None, None, str]) -> str:
    """The outcome of an attempt, whose connection may break at any time."""
    try:
        return await attempt
    except (ConnectionResetError, BrokenPipeError):
        return "reset"
    except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
        return "closed"
    except (TimeoutError, OSError):
        return "no connection"


async def rest(target: Target) -> None:
    """Wait until the attack is over."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(max(0.0, target.until - time.monotonic()))
