"""One publisher of KV events: a ZeroMQ subscription, with replay of missed messages.

vLLM's protocol: PUB sends topic, number (8 bytes, big-endian), payload; a ROUTER replays from a given number
on, each message as number and payload behind an empty frame, and ends with the number 2^64 - 1.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable
from typing import Literal, TypeAlias

from headgate.fleet.prefix import kv_events
from headgate.fleet.prefix.account import TooManyBlocksError
from headgate.lookup import Lookup
from headgate.observe.kv_events import zmtp
from headgate.observe.kv_events.applying import Applier, PublisherTurns, Work
from headgate.observe.kv_events.order import Order

log = logging.getLogger(__name__)

MAX_REPEATED = 200_000
REPEAT_TIMEOUT_S = 10.0
"""Longest wait between two replayed messages."""
RECONNECT_S, RECONNECT_MAX_S = 0.2, 5.0
REPEAT_PAUSE_S = 1.0
"""Shortest interval between two replay requests to a publisher."""
END = 2**64 - 1
_EVERYTHING = b"\1"
"""Subscribes to all topics."""

State: TypeAlias = Literal["connecting", "live", "lost"]


class _NoEventsError(Exception):
    """A message that violates the protocol."""


class Subscription:
    """One rank of one engine. Calls `changed` when the state changes, and `apply` with events in order."""

    def __init__(
        self,
        host: str,
        port: int,
        replay_port: int | None,
        apply: Callable[[kv_events.Event], bool],
        clear: Callable[[], bool],
        changed: Callable[[], None],
        turns: PublisherTurns,
    ) -> None:
        """`clear` is called when all earlier reports are void, and again as long as it, or `apply`,
        returns that blocks are left to remove."""
        self._lookup = Lookup(host)
        self._port, self._replay_port = port, replay_port
        self._changed = changed
        self._work = Work()
        self._applier = Applier(apply, clear, turns, self._work)
        self._order = Order()
        self.state: State = "connecting"
        self.is_complete = False
        """Whether all messages since the publisher's start were received."""
        self.counts = Counter({"read": 0, "repeated": 0, "invalid": 0, "missed": 0})
        """Messages by outcome."""
        self.problem = ""
        self._repeated_at = -math.inf
        """When the last replay ended."""

    async def run(self) -> None:
        """Run until cancelled."""
        pause_s, loop = RECONNECT_S, asyncio.get_running_loop()
        while True:
            try:
                peer = await zmtp.connect(self._lookup, self._port, b"SUB")
            except OSError as error:
                self.problem = str(error)
            else:
                began = loop.time()
                await self._listen(peer)
                # do not retry at once if the publisher closes at once
                if loop.time() - began > RECONNECT_MAX_S:
                    pause_s = RECONNECT_S
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RECONNECT_MAX_S)

    async def _listen(self, peer: zmtp.Peer) -> None:
        """Listen until the connection ends."""
        try:
            await peer.send(_EVERYTHING)
            self.problem = ""
            self.state = "live"
            self._changed()
            await self._catch_up(None)
            while True:
                frames = await peer.receive()
                await self._handle(frames)
                await self._work.pay_for(frames)
                # Available data is received without a pause, and a flood must not delay requests.
                await asyncio.sleep(0)
        except OSError as error:
            self.state, self.problem = "lost", str(error)
            self._order = Order()
            self.is_complete = False
            self._changed()
        finally:
            peer.close()

    async def _handle(self, frames: list[bytes]) -> None:
        try:
            number, payload = _parts(frames)
        except _NoEventsError as error:
            self.counts["invalid"] += 1
            self.problem = str(error)
            return
        verdict = self._order.classify(number, payload)
        if verdict == "restart":
            await self._applier.forget()
            self.is_complete = False
        if verdict in ("gap", "restart") and number:
            await self._catch_up(number)
        if number >= self._order.expected:
            if not number:
                self.is_complete = True
            await self._apply_message(number, payload, "read")
        self._changed()

    async def _apply_message(self, number: int, payload: bytes, counted_as: str) -> None:
        """Apply a message, and count it."""
        self._order.take(number, payload)
        try:
            await self._applier.apply(payload)
        except (kv_events.InvalidEventsError, TooManyBlocksError) as error:
            # The content of this message is missing from now on.
            self.counts["invalid"] += 1
            self.problem = str(error)
            self.is_complete = False
        else:
            self.counts[counted_as] += 1

    async def _catch_up(self, until: int | None) -> None:
        """Request a replay of what was missed before message `until`; None for everything so far.

        If parts of it are lost, earlier reports are void.
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
            await self._skip_missed(until)
        self._changed()

    async def _skip_missed(self, until: int) -> None:
        """Give up the messages before `until`, which are lost."""
        expected = self._order.expected
        if expected:
            self.counts["missed"] += until - expected
            await self._applier.forget()
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
                    # A publisher without stored messages has sent none.
                    self.is_complete = self.is_complete or not self._order.expected
                    return
                await self._repeated(number, payload, until)
                await self._work.pay_for(frames)
                await asyncio.sleep(0)  # yield between two messages
        finally:
            peer.close()

    async def _repeated(self, number: int, payload: bytes, until: int | None) -> None:
        if number < self._order.expected or (until is not None and number >= until):
            return
        if number > self._order.expected:
            await self._skip_missed(number)
        elif not number:
            self.is_complete = True
        await self._apply_message(number, payload, "repeated")


def _parts(frames: list[bytes]) -> tuple[int, bytes]:
    """Number and payload, the last two frames of each message."""
    if len(frames) < 2 or len(frames[-2]) != 8:
        raise _NoEventsError(f"a message of {len(frames)} frames has no number of 8 bytes")
    return int.from_bytes(frames[-2], "big"), frames[-1]
