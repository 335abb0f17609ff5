"""Which of the numbered messages of a publisher are new, which were missed, and when it began anew."""

from __future__ import annotations

from typing import Literal, TypeAlias

Verdict: TypeAlias = Literal["next", "known", "gap", "restart"]


class Order:
    """The numbers that were taken so far: from the subscription, and from what was repeated on request."""

    def __init__(self) -> None:
        self.expected = 0
        """The next number that is new."""
        self._heard = -1
        """The last one that came by subscription: there, numbers grow until the publisher begins anew."""

    def hear(self, number: int) -> Verdict:
        """What a message means that came by subscription. After a gap or a restart, all before it is to be
        asked for from `expected` on, and then `take` called for it."""
        is_restart = number <= self._heard
        self._heard = number
        if is_restart:
            self.expected = 0
            return "restart"
        if number < self.expected:
            return "known"
        return "next" if number == self.expected else "gap"

    def take(self, number: int) -> None:
        """The message was put to use: the one after it is expected."""
        self.expected = number + 1
