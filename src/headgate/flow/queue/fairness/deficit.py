"""Deficit round robin over work: flows take turns, each with a quantum of tokens per turn.

What a flow could not use because its next request is larger stays its own until its next turn (its deficit);
what is left when it has nothing queued is lost. For two flows that are never empty, the work W sent of each
between any two instants differs by at most

    | W_i / w_i - W_j / w_j |  <=  Q + L_i / w_i + L_j / w_j

with weights w, the quantum Q of a flow of weight 1, and the largest request L of each, in tokens. With equal
weights that is 2 L + Q, the fairness measure that M. Shreedhar and G. Varghese prove in "Efficient Fair
Queueing using Deficit Round Robin", SIGCOMM 1995. (In m turns a flow sends m w Q, and the difference of its
deficits, each less than L between turns; the turns of two flows alternate.)

In the paper, a turn may pass without a request, often so if requests are larger than the quantum. Here a flow
waits in a heap for the round in which its head is due, so each request costs O(log flows) whatever its size,
and a small quantum costs nothing. A new flow starts with the next round, before the existing ones: so a round
ends however many flows join, and two flows alternate from the first turn on.
"""

from __future__ import annotations

import math
from itertools import count

from headgate.flow.queue.fairness.fairness import Fairness, Usage
from headgate.flow.queue.fairness.ranking import Ranking
from headgate.flow.queue.flow import Flow

MAX_OWED = 64
"""Rounds that a flow may owe for requests sent by other processes."""


class DeficitRoundRobin(Fairness):
    """`Flow.round` is the last round in which a flow got its quantum; within a round, flows go by
    `Flow.turn`."""

    def __init__(self, quantum: int) -> None:
        self._quantum = quantum
        self._round = 0
        self._numbers = count()
        self._due = Ranking()
        """By round and turn."""

    def joined(self, flow: Flow, now: float) -> None:
        flow.deficit = 0.0
        flow.round = self._round
        flow.turn = (-self._round, next(self._numbers))
        self.moved(flow, now)

    def next(self, now: float) -> Flow:
        return self._due.first()

    def took(self, flow: Flow, work: int, now: float) -> None:
        due = self._due_of(flow)
        if due > self._round and self._due.first() is flow:
            self._round = due
        rounds = min(due, self._round) - flow.round
        if rounds > 0:
            flow.deficit += rounds * self._quantum * flow.weight
            flow.round += rounds
        flow.deficit -= work
        if flow.members:
            self.moved(flow, now)

    def moved(self, flow: Flow, now: float) -> None:
        lacking = flow.head.work - flow.deficit
        rounds = math.ceil(lacking / (self._quantum * flow.weight)) if lacking > 0.0 else 0
        self._due.put(flow, (flow.round + rounds, *flow.turn))

    def left(self, flow: Flow, now: float) -> None:
        self._due.drop(flow)

    def served(self, name: str, flow: Flow | None, work: int, usage: Usage, now: float) -> None:
        """Charge or credit the flow with the difference between actual and expected use."""
        if flow is not None and usage.work != work:
            flow.deficit -= usage.work - work
            self.moved(flow, now)

    def charged(self, flow: Flow, work: int, now: float) -> None:
        """Charge the flow, but never to a debt of more than MAX_OWED rounds: otherwise it would wait behind
        every new flow until it had paid.

        A negative amount corrects an earlier report. It lowers a debt but gives no credit: the flow may not
        have been charged here, or not for all of it.
        """
        if work > 0:
            least = -MAX_OWED * self._quantum * flow.weight
            deficit = min(flow.deficit, max(flow.deficit - work, least))
        else:
            deficit = max(flow.deficit, min(flow.deficit - work, 0.0))
        if deficit != flow.deficit:
            flow.deficit = deficit
            self.moved(flow, now)

    def standing(self, flow: Flow, now: float) -> str:
        rounds = self._due_of(flow) - self._round
        when = f"in {rounds} round{'s' * (rounds != 1)}" if rounds > 0 else "in this round"
        return f"deficit {flow.deficit:.0f} tokens, due {when}"

    @staticmethod
    def _due_of(flow: Flow) -> int:
        assert flow.entry is not None
        return int(flow.entry[0][0])
