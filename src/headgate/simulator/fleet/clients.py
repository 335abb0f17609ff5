"""Who sends the requests: each at its time, or, in a conversation, once the answer before it is there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from headgate.simulator.fleet.timeline import Timeline
from headgate.simulator.traces import TimedRequest

Arrive = Callable[[int, TimedRequest], None]


class _Conversation:
    """A session with a turn that is under way, or was."""

    __slots__ = ("ended_s", "turns")

    def __init__(self) -> None:
        self.ended_s: float | None = None
        """When its last turn ended; None while one is under way."""
        self.turns: deque[tuple[int, TimedRequest]] = deque()


class Clients:
    """Takes requests one ahead of their time, and the turns that wait for an answer with those before them.

    A turn comes after the one before it however that ended: what is sent does not depend on who serves it.
    """

    def __init__(self, requests: Iterable[TimedRequest], timeline: Timeline, arrive: Arrive) -> None:
        """`arrive` is told the number of each request and the request, with the time at which it comes."""
        self._coming = enumerate(requests)
        self._timeline = timeline
        self._arrive = arrive
        self._conversations: dict[int, _Conversation] = {}

    def expect_next(self) -> None:
        """Plans the arrival of the next request that comes at a time of its own, if there is one.

        ValueError if a request waits for an answer in a session that has not begun.
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
        """A client has its answer, or knows that it gets none."""
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
