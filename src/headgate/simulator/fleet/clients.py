"""Clients: send each request at its time, or, in a conversation, after the previous response."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from headgate.simulator.fleet.timeline import Timeline
from headgate.traffic.traces import TimedRequest

Arrive = Callable[[int, TimedRequest], None]


class _Conversation:
    """A session with a turn that has started."""

    __slots__ = ("ended_s", "turns")

    def __init__(self) -> None:
        self.ended_s: float | None = None
        """When its last turn ended; None while one is in progress."""
        self.turns: deque[tuple[int, TimedRequest]] = deque()


class Clients:
    """Reads requests one ahead of time; turns that wait for a response stay with their conversation.

    A turn follows the previous one however that ended: what clients send does not depend on the fleet.
    """

    def __init__(self, requests: Iterable[TimedRequest], timeline: Timeline, arrive: Arrive) -> None:
        """`arrive` is called with the number of each request and the request, at the time it arrives."""
        self._coming = enumerate(requests)
        self._timeline = timeline
        self._arrive = arrive
        self._conversations: dict[int, _Conversation] = {}

    def expect_next(self) -> None:
        """Schedule the arrival of the next request that has its own time, if any.

        Raises ValueError if a request waits for a response in a session that has not started.
        """
        for number, timed in self._coming:
            if timed.think_s is None:
                self._timeline.at(timed.at_s, partial(self._come, number, timed))
                if timed.session >= 0:
                    self._conversations.setdefault(timed.session, _Conversation()).ended_s = None
                return
            conversation = self._conversations.get(timed.session)
            if conversation is None:
                raise ValueError(
                    f"request {number}: think_s needs a request before it in session {timed.session}"
                )
            conversation.turns.append((number, timed))
            if conversation.ended_s is not None:
                self._send_next(conversation)

    def ended(self, timed: TimedRequest) -> None:
        """A client has received its response, or learned that there will be none."""
        conversation = self._conversations.get(timed.session)
        if conversation is not None:
            conversation.ended_s = self._timeline.now
            if conversation.turns:
                self._send_next(conversation)

    def _come(self, number: int, timed: TimedRequest) -> None:
        self.expect_next()
        self._arrive(number, timed)

    def _send_next(self, conversation: _Conversation) -> None:
        number, timed = conversation.turns.popleft()
        assert conversation.ended_s is not None
        assert timed.think_s is not None
        at_s = max(self._timeline.now, conversation.ended_s + timed.think_s)
        if at_s > timed.until_s:
            conversation.turns.clear()
            return
        conversation.ended_s = None
        timed = msgspec.structs.replace(timed, at_s=at_s)
        self._timeline.at(at_s, partial(self._arrive, number, timed))
