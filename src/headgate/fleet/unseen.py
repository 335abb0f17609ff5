"""Prompts of unstreamed responses, whose first tokens are not visible.

If the engine does not count them (`counted.py`), two things show when they are prefilled. The end of the
response does: its first token came earlier by the decode time of the others. And the engine's count of
waiting requests bounds what it still has to prefill.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.fleet.booked_prompt import BookedPrompt
    from headgate.fleet.rates import Rates
    from headgate.fleet.reading import EngineReading

SETTLED_S = 0.25
"""A reading may lack requests sent less than this before it: engines count after each step."""
PACE_GOOD_S = 30.0
"""How long an engine's own mean time between tokens is trusted."""
MIN_STEPS = 8
DECODING = 4.0
"""A response reveals the decode pace if it took at least this many times as long as its prompt."""
SLOWER = 1 + 1 / 64
"""The fastest response is forgotten: each one may slow the pace by this factor."""


class UnseenPrompts:
    """The unseen prompts of one endpoint, from booking to end."""

    __slots__ = ("_bookings", "_pace_good_until", "_pace_s", "owed_tokens")

    def __init__(self) -> None:
        self._bookings: dict[BookedPrompt, None] = {}
        self.owed_tokens = 0
        self._pace_s = 0.0
        self._pace_good_until = -math.inf

    def __len__(self) -> int:
        return len(self._bookings)

    def add(self, booking: BookedPrompt) -> None:
        self._bookings[booking] = None
        self.owed_tokens += booking.owed_tokens

    def remove(self, booking: BookedPrompt) -> bool:
        """Remove a prompt; returns whether it was there."""
        if booking not in self._bookings:
            return False
        del self._bookings[booking]
        self.owed_tokens -= booking.owed_tokens
        return True

    def read(self, reading: EngineReading | None) -> None:
        """Apply the pace that the engine reports; None clears it."""
        if reading is None:
            self._pace_good_until = -math.inf
        elif reading.tpot_s and reading.tpot_at is not None:
            self._pace_s, self._pace_good_until = reading.tpot_s, reading.tpot_at + PACE_GOOD_S

    def step_s(self, booking: BookedPrompt, steps: int, rates: Rates, now: float) -> float:
        """Seconds between the tokens of a response that has just ended after `steps`; 0 if unknown.

        As the engine reports it, else as streams have shown it. Without either, it is that of the fastest
        recent response: only its prompt and its tokens took time.
        """
        if now < self._pace_good_until:
            return self._pace_s
        if steps >= MIN_STEPS and not rates.is_paced:
            lasted_s, prefill_s = now - booking.at, booking.owed_tokens * rates.token_s
            if lasted_s > DECODING * prefill_s:
                pace_s, known_s = (lasted_s - prefill_s) / steps, rates.step_s * SLOWER
                rates.step_s = min(pace_s, known_s) if known_s else pace_s
        return rates.step_s

    def bounds(self, waiting: int, at: float, *, is_ordered: bool) -> tuple[int, int]:
        """The least and most tokens of these that the engine has left to prefill, with `waiting` requests at
        `at`: those, at most one more that is in progress, and what was sent just before."""
        sent, least, most = 0, 0, 0
        for booking in reversed(self._bookings):
            tokens = booking.owed_tokens
            most += tokens
            if booking.at > at - SETTLED_S:
                sent += 1
            elif waiting <= 0:
                break
            else:
                if waiting > sent:
                    least += tokens
                waiting -= 1
        if not is_ordered:
            most = max(most, *(booking.owed_tokens for booking in self._bookings))
        return least, most
