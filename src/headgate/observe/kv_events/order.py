"""Classifies the numbered messages of a publisher: new, duplicate, after a gap, or after a restart."""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal, TypeAlias

Verdict: TypeAlias = Literal["next", "known", "gap", "restart"]

REMEMBERED = 4096
"""Messages remembered, because they can arrive twice: by subscription and by replay."""


class Order:
    """The messages taken so far, from the subscription and from replays."""

    def __init__(self) -> None:
        self.expected = 0
        """The next new number."""
        self._taken: OrderedDict[int, int] = OrderedDict()

    def classify(self, number: int, payload: bytes) -> Verdict:
        """The meaning of a message from the subscription.

        A known number is either a duplicate or a publisher that counts from 0 again: then the payload
        differs. After a gap or a restart, request a replay from `expected` on.
        """
        if number >= self.expected:
            return "next" if number == self.expected else "gap"
        if self._taken.get(number) == hash(payload):
            return "known"
        self.expected = 0
        self._taken.clear()
        return "restart"

    def take(self, number: int, payload: bytes) -> None:
        """Record that the message was applied: the next number is expected."""
        self.expected = number + 1
        self._taken[number] = hash(payload)
        if len(self._taken) > REMEMBERED:
            self._taken.popitem(last=False)

    def skip_to(self, number: int) -> None:
        """Give up the messages before `number`, which are lost."""
        self.expected = number
