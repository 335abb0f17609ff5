"""First tokens of responses that are not streamed, from the engine's own counts.

The gateway cannot see these first tokens, but a metrics page has their number and the sum of their latencies.
An engine that serves prompts in order has produced the n first tokens between two readings for the next n
prompts. If each prompt starts when it is sent or when the one before it is done, then

    sum of times = starts * delay + prefilled tokens until each * seconds per token - what was done before

so a single prompt gives its exact time, and several together give their mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headgate.fleet.booked_prompt import BookedPrompt
    from headgate.fleet.reading import EngineReading

SLACK_S = 0.25
"""How far a first token may lie outside of the interval that counted it: one step, and the network."""
GOOD_S = 30.0
"""How long the engine's counts are trusted after they matched."""


class Lesson(NamedTuple):
    """Mean cost of a group of counted prompts."""

    starts: float
    """Mean number of times that a prompt, or one that it waited for, found the engine idle."""
    tokens: float
    """Mean tokens prefilled from then until its first token."""
    took_s: float
    last_at: float
    """When the last one got its first token."""


class CountedPrompts:
    """The unstreamed prompts of one endpoint, from booking to the reading that counts them."""

    __slots__ = ("_expected", "_good_until", "_until", "is_sure", "seen_at", "streamed_at")

    def __init__(self) -> None:
        self._expected: dict[BookedPrompt, float] = {}
        """Prompts without a known first token, and when they ended; infinite while they run."""
        self._good_until = -math.inf
        self._until = -math.inf
        self.is_sure = False
        """Whether every count since the last empty state matched the next prompts. After a missed or failed
        prompt, later ones may be confused with each other."""
        self.seen_at = -math.inf
        """Time of the last counted first token."""
        self.streamed_at = -math.inf
        """When a stream last got its first token: the engine counts those too."""

    def is_good(self, now: float) -> bool:
        """Whether the engine's counts match what was sent, so that they are better evidence than the ends of
        responses."""
        return now < self._good_until

    @property
    def next(self) -> BookedPrompt | None:
        """The first running prompt without a first token."""
        return next((booking for booking, at in self._expected.items() if at == math.inf), None)

    def add(self, booking: BookedPrompt) -> None:
        self.is_sure = self.is_sure or not self._expected
        self._expected[booking] = math.inf

    def ended(self, booking: BookedPrompt, now: float, *, is_served: bool) -> None:
        """Record that the response is complete, or has failed. The next reading should count the first token
        of a complete response."""
        if is_served and self.is_good(now):
            if booking in self._expected:
                self._expected[booking] = now
        elif self._expected.pop(booking, None) is not None:
            self.is_sure = False

    def distrust(self) -> None:
        """Stop trusting the counts: the engine has requests that are not tracked here."""
        self._good_until = -math.inf
        self.is_sure = False

    def count(self, reading: EngineReading) -> list[BookedPrompt]:
        """The prompts that got their first tokens in the reading's interval. Empty if the interval was
        counted before, or if the times do not fit these prompts."""
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
            if place + count < len(expected):  # if the prompts before them were missed
                sent_s += expected[place + count].at - expected[place].at
        self.distrust()
        return []

    def _forget_ended(self, until: float) -> None:
        """Drop prompts that ended before `until`: their first tokens came earlier."""
        for booking in [booking for booking, at in self._expected.items() if at <= until]:
            del self._expected[booking]
            self.is_sure = False

    def lesson(
        self, served: Iterable[BookedPrompt], mean_s: float, idle_at: float, delay_s: float, token_s: float
    ) -> Lesson:
        """Mean cost of prompts whose mean time to first token is `mean_s`, on an engine without other prefill
        work since `idle_at`. The rates decide which prompts waited for another."""
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
