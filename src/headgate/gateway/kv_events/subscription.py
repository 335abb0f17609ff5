"""One publisher of KV events: subscribed to over ZeroMQ, and asked to repeat what was missed.

vLLM's protocol: PUB sends topic, number (8 bytes, big-endian), payload; a ROUTER repeats from a number on,
each message as number and payload behind an empty frame, and ends with the number 2^64 - 1.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Literal, TypeAlias

import zmq
import zmq.asyncio
from zmq.utils.monitor import parse_monitor_message

from headgate.fleet.prefix import kv_events
from headgate.fleet.prefix.account import TooManyBlocksError
from headgate.gateway.kv_events.order import Order

log = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
MAX_WAITING = 100_000
"""Messages that wait to be read; more are dropped, and missed."""
MAX_REPEATED = 200_000
REPEAT_TIMEOUT_S = 10.0
"""Between two messages that are repeated."""
HEARTBEAT_MS = 5000
RECONNECT_MS, RECONNECT_MOST_MS = 200, 5000
END = 2**64 - 1

State: TypeAlias = Literal["connecting", "live", "lost"]


class _NoEventsError(Exception):
    """A message that is none of the protocol."""


class Subscription:
    """One rank of one engine. `changed` is called as the state changes, `apply` with events, in order."""

    def __init__(
        self,
        host: str,
        port: int,
        replay_port: int | None,
        apply: Callable[[kv_events.Event], None],
        begin_anew: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        """`begin_anew` is called where all that was told of before holds no more."""
        place = f"[{host}]" if ":" in host else host
        self._address = f"tcp://{place}:{port}"
        self._replay_address = f"tcp://{place}:{replay_port}" if replay_port else ""
        self._is_ipv6 = ":" in host
        self._apply = apply
        self._begin_anew = begin_anew
        self._changed = changed
        self._order = Order()
        self.state: State = "connecting"
        self.is_complete = False
        """Whether all was heard since the publisher began."""
        self.counts = Counter({"read": 0, "repeated": 0, "invalid": 0, "missed": 0})
        """Messages."""
        self.problem = ""

    async def run(self, context: zmq.asyncio.Context) -> None:
        """Until cancelled."""
        socket = self._socket(context, zmq.SUB)
        socket.setsockopt(zmq.SUBSCRIBE, b"")
        events = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        monitor = socket.get_monitor_socket(events)
        poller = zmq.asyncio.Poller()
        poller.register(socket, zmq.POLLIN)
        poller.register(monitor, zmq.POLLIN)
        try:
            socket.connect(self._address)
            while True:
                ready = dict(await poller.poll())
                if monitor in ready:
                    told = parse_monitor_message(await monitor.recv_multipart())
                    await self._connection_changed(told["event"], context)
                if socket in ready:
                    await self._take(await socket.recv_multipart(), context)
                    # What is there already is received at once, and a flood must not hold up requests.
                    await asyncio.sleep(0)
        finally:
            socket.disable_monitor()
            monitor.close(linger=0)
            socket.close(linger=0)

    def _socket(self, context: zmq.asyncio.Context, kind: int) -> zmq.asyncio.Socket:
        socket = context.socket(kind)
        for option, value in (
            (zmq.LINGER, 0),
            (zmq.RCVHWM, MAX_WAITING),
            (zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES),
            (zmq.HEARTBEAT_IVL, HEARTBEAT_MS),
            (zmq.RECONNECT_IVL, RECONNECT_MS),
            (zmq.RECONNECT_IVL_MAX, RECONNECT_MOST_MS),
            (zmq.IPV6, int(self._is_ipv6)),
        ):
            socket.setsockopt(option, value)
        return socket

    async def _connection_changed(self, event: int, context: zmq.asyncio.Context) -> None:
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self.problem = ""
            self.state = "live"
            self._changed()
            await self._catch_up(None, context)
        elif self.state == "live":
            self.state, self.problem = "lost", "the publisher has closed the connection"
            self._order = Order()
            self.is_complete = False
            self._changed()

    async def _take(self, frames: list[bytes], context: zmq.asyncio.Context) -> None:
        if self.state == "lost":
            return  # it was on its way as the connection closed
        try:
            number, payload = _parts(frames)
        except _NoEventsError as error:
            self.counts["invalid"] += 1
            self.problem = str(error)
            return
        verdict = self._order.hear(number, payload)
        if verdict == "restart":
            self._begin_anew()
            self.is_complete = False
        if self.state != "live":
            self.state = "live"
            self._changed()
        if verdict in ("gap", "restart") and number:
            await self._catch_up(number, context)
        if number >= self._order.expected:
            if not number:
                self.is_complete = True
            self._use(number, payload, "read")
        self._changed()

    def _use(self, number: int, payload: bytes, counted_as: str) -> None:
        self._order.take(number, payload)
        try:
            events = kv_events.read(payload)
            for event in events:
                self._apply(event)
        except (kv_events.InvalidEventsError, TooManyBlocksError) as error:
            # What this message said is missing from now on.
            self.counts["invalid"] += 1
            self.problem = str(error)
            self.is_complete = False
            return
        self.counts[counted_as] += 1

    async def _catch_up(self, until: int | None, context: zmq.asyncio.Context) -> None:
        """Asks for what was missed before the message `until`; None for all that there is so far.

        If it is not all to be had, what was told of before may not hold any more.
        """
        if self._replay_address:
            try:
                await self._repeat(until, context)
            except (TimeoutError, _NoEventsError) as error:
                self.problem = str(error) or "the publisher does not repeat what was missed"
        if until is not None and self._order.expected < until:
            self._miss(until)
        self._changed()

    def _miss(self, until: int) -> None:
        """What came before the message `until` is not to be had any more."""
        expected = self._order.expected
        if expected:
            self.counts["missed"] += until - expected
            self._begin_anew()
        self.is_complete = False
        self._order.skip_to(until)

    async def _repeat(self, until: int | None, context: zmq.asyncio.Context) -> None:
        socket = self._socket(context, zmq.DEALER)
        try:
            socket.connect(self._replay_address)
            async with asyncio.timeout(REPEAT_TIMEOUT_S):
                await socket.send_multipart([b"", self._order.expected.to_bytes(8, "big")])
            for _ in range(MAX_REPEATED):
                async with asyncio.timeout(REPEAT_TIMEOUT_S):
                    number, payload = _parts(await socket.recv_multipart())
                if number == END or not payload:
                    # A publisher that remembers nothing has said nothing.
                    self.is_complete = self.is_complete or not self._order.expected
                    return
                self._repeated(number, payload, until)
                await asyncio.sleep(0)  # others have their turn between two messages
        finally:
            socket.close(linger=0)

    def _repeated(self, number: int, payload: bytes, until: int | None) -> None:
        if number < self._order.expected or (until is not None and number >= until):
            return
        if number > self._order.expected:
            self._miss(number)
        elif not number:
            self.is_complete = True
        self._use(number, payload, "repeated")


def _parts(frames: list[bytes]) -> tuple[int, bytes]:
    """Number and payload, which are the last two frames of each message."""
    if len(frames) < 2 or len(frames[-2]) != 8:
        raise _NoEventsError(f"a message of {len(frames)} frames has no number of 8 bytes")
    return int.from_bytes(frames[-2], "big"), frames[-1]
