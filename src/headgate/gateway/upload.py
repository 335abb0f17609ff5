"""Sends a long request body to an endpoint, as fast as the endpoint reads, without copies."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final

from headgate.loop_turns import Turns

Buffer = bytes | bytearray | memoryview

_BYTES_PER_TURN: Final = 256 * 1024
_NOTHING: Final = memoryview(b"")


class Upload:
    """Writes one part of the body per turn of the event loop. Otherwise, a fast endpoint could take the whole
    body in one turn, and over TLS the transport would copy what a slow endpoint has not read."""

    __slots__ = ("_is_paused", "_later", "_next", "_transport", "_turns", "_waits_for_turn")

    def __init__(self, transport: asyncio.Transport, turns: Turns, body: Iterable[Buffer]) -> None:
        self._transport = transport
        self._turns = turns
        self._later = deque(memoryview(each) for each in body)
        self._next = self._later.popleft()
        """The bytes to send next, from one buffer of the body."""
        self._is_paused = False
        """Whether writing is paused until the endpoint reads more."""
        self._waits_for_turn = False

    @property
    def is_done(self) -> bool:
        """Whether everything was passed to the transport."""
        return not self._next

    def send(self) -> None:
        """Write the next part, unless paused or already done in this turn."""
        if self._is_paused or self._waits_for_turn:
            return
        size = 0
        while self._next and size < _BYTES_PER_TURN:
            room = _BYTES_PER_TURN - size
            sent, rest = self._next[:room], self._next[room:]
            if not rest:  # an empty view would keep the whole body alive
                rest = self._later.popleft() if self._later else _NOTHING
            self._next = rest
            size += len(sent)
            self._transport.write(sent)
        if self._next:
            self._waits_for_turn = True
            self._turns.wait(self._go_on)

    def _go_on(self) -> bool:
        self._waits_for_turn = False
        self.send()
        return True

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self.send()

    def drop(self) -> None:
        """Free the unsent part, after the connection has ended."""
        self._next = _NOTHING
        self._later.clear()
