"""One publisher of KV events: subscribed to over ZeroMQ, and asked to repeat what was missed.

vLLM's protocol: PUB sends topic, number (8 bytes, big-endian), payload; a ROUTER repeats from a number on,
each message as number and payload behind an empty frame, and ends with the number 2^64 - 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Literal, TypeAlias

from headgate.fleet.prefix import kv_events
from headgate.fleet.prefix.account import TooManyBlocksError
from headgate.lookup import Lookup
from headgate.observe.kv_events import zmtp
from headgate.observe.kv_events.order import Order

log = logging.getLogger(__name__)

MAX_REPEATED = 200_000
REPEAT_TIMEOUT_S = 10.0
"""Between two messages that are repeated."""
RECONNECT_S, RECONNECT_MAX_S = 0.2, 5.0
SLICE_BLOCKS = 2048
"""So many blocks are put to use without a pause, in a few milliseconds: nearly any message has fewer."""
EVENT_BLOCKS = 8
"""What an event costs besides its blocks, in blocks; and so does a message."""
BLOCK_BYTES = 1024
"""So much of a message costs as much as a block, whatever is in it."""
RECEIVED_S = 50e-6
"""CPU time that it takes to receive a message, whatever is in it."""
REST = 3.0
"""How many times longer than the work the pause is: requests need the event loop, too."""
REST_OF_ALL = 1.5
"""The same where several publishers send much: only one at a time is put to use."""
SHORT_BYTES = 1024
"""A payload is short that hardly costs anything, and need not wait for those of others."""
REPEAT_PAUSE_S = 1.0
"""Between two times that a publisher is asked to repeat what was missed."""
END = 2**64 - 1
_EVERYTHING = b"\1"
"""Subscribes to all topics."""

State: TypeAlias = Literal["connecting", "live", "lost"]


class _NoEventsError(Exception):
    """A message that is none of the protocol."""


class PublisherTurns:
    """Of all publishers of a process: a slice of what one of them sent is put to use, then all pause."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def next(self) -> AsyncIterator[None]:
        """The work, which does not await, is done in the context."""
        async with self._lock:
            began = time.thread_time()
            try:
                yield
            finally:
                await asyncio.sleep(REST_OF_ALL * (time.thread_time() - began))


class Subscription:
    """One rank of one engine. `changed` is called as the state changes, `apply` with events, in order."""

    def __init__(
        self,
        host: str,
        port: int,
        replay_port: int | None,
        apply: Callable[[kv_events.Event], bool],
        begin_anew: Callable[[], bool],
        changed: Callable[[], None],
        turns: PublisherTurns,
    ) -> None:
        """`begin_anew` is called where all that was told of before holds no more, and again as long as it, or
        `apply`, has said that there is more to be taken back."""
        self._lookup = Lookup(host)
        self._port, self._replay_port = port, replay_port
        self._apply = apply
        self._begin_anew = begin_anew
        self._changed = changed
        self._turns = turns
        self._order = Order()
        self.state: State = "connecting"
        self.is_complete = False
        """Whether all was heard since the publisher began."""
        self.counts = Counter({"read": 0, "repeated": 0, "invalid": 0, "missed": 0})
        """Messages."""
        self.problem = ""
        self._blocks = 0
        """Put to use since the last pause."""
        self._worked_s = 0.0
        """CPU time that they took."""
        self._has_more_to_forget = False
        """Whether what was told of before is being taken back."""
        self._repeated_at = -math.inf

    async def run(self) -> None:
        """Until cancelled."""
        pause_s, loop = RECONNECT_S, asyncio.get_running_loop()
        while True:
            try:
                peer = await zmtp.connect(self._lookup, self._port, b"SUB")
            except OSError as error:
                self.problem = str(error)
            else:
                began = loop.time()
                await self._listen(peer)
                if loop.time() - began > RECONNECT_MAX_S:  # whoever closes at once is not asked at once
                    pause_s = RECONNECT_S
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RECONNECT_MAX_S)

    async def _listen(self, peer: zmtp.Peer) -> None:
        """Until the connection ends."""
        try:
            await peer.send(_EVERYTHING)
            self.problem = ""
            self.state = "live"
            self._changed()
            await self._catch_up(None)
            while True:
                frames = await peer.receive()
                await self._take(frames)
                await self._pay_for(frames)
                # What is there already is received at once, and a flood must not hold up requests.
                await asyncio.sleep(0)
        except OSError as error:
            self.state, self.problem = "lost", str(error)
            self._order = Order()
            self.is_complete = False
            self._changed()
        finally:
            peer.close()

    async def _take(self, frames: list[bytes]) -> None:
        try:
            number, payload = _parts(frames)
        except _NoEventsError as error:
            self.counts["invalid"] += 1
            self.problem = str(error)
            return
        verdict = self._order.hear(number, payload)
        if verdict == "restart":
            await self._forget()
            self.is_complete = False
        if verdict in ("gap", "restart") and number:
            await self._catch_up(number)
        if number >= self._order.expected:
            if not number:
                self.is_complete = True
            await self._use(number, payload, "read")
        self._changed()

    async def _use(self, number: int, payload: bytes, counted_as: str) -> None:
        """What a message says holds at once, unless it is a large one."""
        self._order.take(number, payload)
        events = kv_events.read(payload)
        try:
            has_more = self._put_to_use(events) if len(payload) <= SHORT_BYTES else True
            while has_more:
                if self._has_more_to_forget:
                    await self._forget()
                await self._rest_if_due()
                async with self._turns.next():
                    has_more = self._put_to_use(events)
        except (kv_events.InvalidEventsError, TooManyBlocksError) as error:
            # What this message said is missing from now on.
            self.counts["invalid"] += 1
            self.problem = str(error)
            self.is_complete = False
        else:
            self.counts[counted_as] += 1

    def _put_to_use(self, events: Iterator[kv_events.Event]) -> bool:
        """A slice of a message; returns whether there may be more of it."""
        began, blocks = time.thread_time(), 0
        try:
            for event in events:
                blocks += EVENT_BLOCKS + kv_events.cost(event)
                self._has_more_to_forget = self._apply(event)
                if blocks >= SLICE_BLOCKS or self._has_more_to_forget:
                    return True
            return False
        finally:
            self._worked_s += time.thread_time() - began
            self._blocks += blocks

    async def _forget(self) -> None:
        """Nothing that was told of before holds any more: it is taken back slice by slice."""
        self._has_more_to_forget = True
        while self._has_more_to_forget:
            async with self._turns.next():
                began = time.thread_time()
                self._has_more_to_forget = self._begin_anew()
                self._worked_s += time.thread_time() - began
                self._blocks += SLICE_BLOCKS
            await self._rest_if_due()

    async def _pay_for(self, frames: list[bytes]) -> None:
        """Counts a message, also one that said nothing new, and pauses if it is time."""
        self._worked_s += RECEIVED_S
        self._blocks += EVENT_BLOCKS + sum(map(len, frames)) // BLOCK_BYTES
        await self._rest_if_due()

    async def _rest_if_due(self) -> None:
        """Leaves the event loop to others, however much an engine tells."""
        if self._blocks < SLICE_BLOCKS:
            return
        worked_s, self._worked_s, self._blocks = self._worked_s, 0.0, 0
        await asyncio.sleep(REST * worked_s)

    async def _catch_up(self, until: int | None) -> None:
        """Asks for what was missed before the message `until`; None for all that there is so far.

        If it is not all to be had, what was told of before may not hold any more.
        """
        if self._replay_port:
            now = asyncio.get_running_loop().time()
            await asyncio.sleep(self._repeated_at + REPEAT_PAUSE_S - now)
            try:
                await self._repeat(self._replay_port, until)
            except (OSError, _NoEventsError) as error:
                self.problem = f"the publisher does not repeat what was missed: {error}".removesuffix(": ")
            finally:
                self._repeated_at = asyncio.get_running_loop().time()
        if until is not None and self._order.expected < until:
            await self._miss(until)
        self._changed()

    async def _miss(self, until: int) -> None:
        """What came before the message `until` is not to be had any more."""
        expected = self._order.expected
        if expected:
            self.counts["missed"] += until - expected
            await self._forget()
        self.is_complete = False
        self._order.skip_to(until)

    async def _repeat(self, port: int, until: int | None) -> None:
        peer = await zmtp.connect(self._lookup, port, b"DEALER")
        try:
            async with asyncio.timeout(REPEAT_TIMEOUT_S):
                await peer.send(b"", self._order.expected.to_bytes(8, "big"))
            for _ in range(MAX_REPEATED):
                async with asyncio.timeout(REPEAT_TIMEOUT_S):
                    frames = await peer.receive()
                number, payload = _parts(frames)
                if number == END or not payload:
                    # A publisher that remembers nothing has said nothing.
                    self.is_complete = self.is_complete or not self._order.expected
                    return
                await self._repeated(number, payload, until)
                await self._pay_for(frames)
                await asyncio.sleep(0)  # others have their turn between two messages
        finally:
            peer.close()

    async def _repeated(self, number: int, payload: bytes, until: int | None) -> None:
        if number < self._order.expected or (until is not None and number >= until):
            return
        if number > self._order.expected:
            await self._miss(number)
        elif not number:
            self.is_complete = True
        await self._use(number, payload, "repeated")


def _parts(frames: list[bytes]) -> tuple[int, bytes]:
    """Number and payload, which are the last two frames of each message."""
    if len(frames) < 2 or len(frames[-2]) != 8:
        raise _NoEventsError(f"a message of {len(frames)} frames has no number of 8 bytes")
    return int.from_bytes(frames[-2], "big"), frames[-1]
