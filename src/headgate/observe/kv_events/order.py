"""Which of the numbered messages of a publisher are new, which were missed, and when it began anew."""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal, TypeAlias

Verdict: TypeAlias = Literal["next", "known", "gap", "restart"]

REMEMBERED = 4096
"""Messages that can come twice: by subscription, and since they were asked for."""


class Order:
    """The messages that were taken so far: from the subscription, and of those that were repeated."""

    def __init__(self) -> None:
        self.expected = 0
        """The next number that is new."""
        self._taken: OrderedDict[int, int] = OrderedDict()

    def hear(self, number: int, payload: bytes) -> Verdict:
        """What a message means that came by subscription.

        A number that was taken before is that message again, or the publisher counts from 0 once more: then
        it says something else. After a gap or a restart, all before it is to be asked for from `expected` on.
        """
        if number >= self.expected:
            return "next" if number == self.expected else "gap"
        if self._taken.get(number) == hash(payload):
            return "known"
        self.expected = 0
        self._taken.clear()
        return "restart"

    def take(self, number: int, payload: bytes) -> None:
        """The message was put to use: the one after it is expected."""
        self.expected = number + 1
        self._taken[number] = hash(payload)
        if len(self._taken) > REMEMBERED:
            self._taken.popitem(last=False)

    def skip_to(self, number: int) -> None:
        """Those before it are not to be had any more."""
        self.expected = number
