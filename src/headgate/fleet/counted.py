"""Prompts whose answers come in one piece, and whose first tokens the engine counts.

Nobody sees these first tokens, but a metrics page has how many there were, and how long they took in all. Of
an engine that serves prompts in order, the n first tokens between two looks are those of the next n prompts.
Where each waits for those before it, and begins when it was sent or when the one before it was done,

    sum of times = starts * delay + prefilled tokens until each * seconds per token - what was done before

so that a prompt by itself says exactly what it took, and many together say it on average.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headgate.fleet.booked_prompt import BookedPrompt
    from headgate.fleet.reading import EngineReading

SLACK_S = 0.25
"""How far first tokens may be outside of the interval in which they were counted: a step, and the network."""
GOOD_S = 30.0
"""An engine's counts are relied on for so long."""


class Lesson(NamedTuple):
    """What counted prompts took, on average."""

    starts: float
    """How often one of them found its engine idle, or waited for one that did."""
    tokens: float
    """Prefilled from then on until its first token."""
    took_s: float
    last_at: float
    """When the last one had its first token."""


class CountedPrompts:
    """Of one endpoint, from booking to the look that counts them."""

    __slots__ = ("_expected", "_good_until", "_until", "is_sure", "seen_at")

    def __init__(self) -> None:
        self._expected: dict[BookedPrompt, float] = {}
        """Those that are not known to have a first token, and when they ended."""
        self._good_until = -math.inf
        self._until = -math.inf
        self.is_sure = False
        """Whether each count was that of the next prompts since there were none: if one was missed, or one
        failed, those that come after it may be taken for one another."""
        self.seen_at = -math.inf
        """The last first token that was counted."""

    def is_good(self, now: float) -> bool:
        """Whether the engine's counts fit what was sent, so that they tell more than the ends of answers."""
        return now < self._good_until

    @property
    def next(self) -> BookedPrompt | None:
        """The first one that has no first token yet."""
        return next((booking for booking, at in self._expected.items() if at == math.inf), None)

    def add(self, booking: BookedPrompt) -> None:
        self.is_sure = self.is_sure or not self._expected
        self._expected[booking] = math.inf

    def ended(self, booking: BookedPrompt, now: float, *, is_served: bool) -> None:
        """Its answer is here, or it failed. The next look is to count the first token of an answer."""
        if is_served and self.is_good(now):
            if booking in self._expected:
                self._expected[booking] = now
        elif self._expected.pop(booking, None) is not None:
            self.is_sure = False

    def distrust(self) -> None:
        """The engine has requests that are not among these."""
        self._good_until = -math.inf
        self.is_sure = False

    def count(self, reading: EngineReading) -> list[BookedPrompt]:
        """Those that had their first tokens in the last interval; none if it was counted before, or if they
        cannot have been these."""
        since, until, count = reading.ttft_since, reading.ttft_at, reading.first_tokens
        if not count or since is None or until is None or reading.ttft_s is None or until <= self._until:
            return []
        self._until = until
        self._forget_ended(since)
        expected = list(self._expected)
        sent_s = math.fsum(booking.at for booking in expected[:count])
        for place in range(len(expected) - count + 1):
            first_at = sent_s / count + reading.ttft_s
            if first_at > until + SLACK_S:
                break
            if first_at >= since - SLACK_S:
                for booking in expected[: place + count]:
                    del self._expected[booking]
                self._good_until = until + GOOD_S
                self.is_sure = self.is_sure and not place
                return expected[place : place + count]
            if place + count < len(expected):  # those before were missed
                sent_s += expected[place + count].at - expected[place].at
        self.distrust()
        return []

    def _forget_ended(self, until: float) -> None:
        """Their first tokens were before that."""
        for booking in [booking for booking, at in self._expected.items() if at <= until]:
            del self._expected[booking]
            self.is_sure = False

    def lesson(
        self, served: Iterable[BookedPrompt], mean_s: float, idle_at: float, delay_s: float, token_s: float
    ) -> Lesson:
        """What is learned from prompts with such a mean time to the first token, on an engine that had
        nothing else to prefill from `idle_at` on. The rates say which of them waited for another."""
        began_at = free_at = idle_at
        start = done = count = starts = tokens = 0
        took_s = expected_s = sent_s = 0.0
        for booking in served:
            if booking.at >= free_at:
                began_at, start, done = booking.at, 1, 0
            done += booking.owed_tokens
            free_at = began_at + start * delay_s + done * token_s
            count, starts, tokens = count + 1, starts + start, tokens + done
            took_s += booking.at + mean_s - began_at
            expected_s += free_at
            sent_s += booking.at
        late_s = sent_s / count + mean_s - expected_s / count
        return Lesson(starts / count, tokens / count, took_s / count, free_at + late_s)
