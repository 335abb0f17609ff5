"""The supervisor's connection to one worker: orders, and requests that wait for a response."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections.abc import Sequence
from typing import TypeAlias

from headgate.workers import channel as wire
from headgate.workers import messages

MAX_UNANSWERED = 8
"""A worker with this many outstanding responses gets no further queries."""

_Answer: TypeAlias = "asyncio.Future[messages.Answered | messages.Counted]"
_ids = itertools.count(1)


class NoAnswer(Exception):  # noqa: N818 - reads as what it says
    """The worker is gone, or too busy."""


class Connection:
    """Orders may be sent before it is open."""

    def __init__(self, slot: int, sock: socket.socket) -> None:
        """Raises OSError."""
        self.opened = asyncio.Event()
        """Set once the worker can receive orders."""
        self._slot = slot
        self._sock, self._ours = sock, sock.dup()
        self._channel: wire.Channel[messages.Report, messages.Order] | None = None
        self._unsent: list[messages.Order] = []
        """Orders from before the channel was open."""
        self._answers: dict[int, _Answer] = {}
        """Outstanding responses."""

    async def open(self) -> wire.Channel[messages.Report, messages.Order]:
        """Return the channel, from which the caller receives reports."""
        self._channel = channel = await wire.to_worker(self._ours)
        for order in self._unsent:
            channel.send(order)
        self._unsent.clear()
        self.opened.set()
        return channel

    def tell(self, order: messages.Order) -> bool:
        """Send an order; return whether it was sent, or will be once there is a channel."""
        if self._channel is None:
            self._unsent.append(order)
            return True
        return self._channel.send(order)

    def inheritable(self) -> int:
        """A descriptor of the socket for the program that this process is about to execute."""
        descriptor = os.dup(self._sock.fileno())
        os.set_inheritable(descriptor, True)
        return descriptor

    def close(self) -> None:
        self._sock.close()
        if self._channel is not None:
            self._channel.close()

    # -- queries

    async def ask(
        self,
        method: str,
        path: str,
        query: str,
        body: bytes,
        limit_s: float,
        headers: Sequence[tuple[str, str]] = (),
    ) -> messages.Answered:
        """Send a request to the worker's debug pages. Raises NoAnswer."""
        ask = messages.Ask(next(_ids), method, path, query, body, list(headers))
        answered = await self._request(ask, limit_s)
        assert isinstance(answered, messages.Answered)
        return answered

    async def count(self, limit_s: float) -> None:
        """Wait until the worker has reported its metrics. Raises NoAnswer."""
        await self._request(messages.Count(next(_ids)), limit_s)

    async def _request(
        self, order: messages.Ask | messages.Count, limit_s: float
    ) -> messages.Answered | messages.Counted:
        if len(self._answers) >= MAX_UNANSWERED or not self.tell(order):
            raise NoAnswer(f"worker {self._slot} is too busy")
        future: _Answer = asyncio.get_running_loop().create_future()
        self._answers[order.id] = future
        await asyncio.wait({future}, timeout=limit_s)
        if not future.done():  # still outstanding: counts against the worker until it arrives
            raise NoAnswer(f"worker {self._slot} did not respond within {limit_s:g} s")
        if future.cancelled():
            raise NoAnswer(f"worker {self._slot} has ended")
        return future.result()

    def answered(self, number: int, report: messages.Answered | messages.Counted) -> None:
        future = self._answers.pop(number, None)
        if future is not None and not future.done():
            future.set_result(report)

    def end_queries(self) -> None:
        """Nothing more will arrive."""
        for future in self._answers.values():
            future.cancel()
