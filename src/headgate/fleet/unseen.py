"""Prompts whose answers come in one piece: nobody sees their first tokens.

Where the engine does not count them (`counted.py`), two things tell when they are prefilled. The end of the
answer does: its first token came as much earlier as the others took. And an engine's own count of the
requests that wait bounds what it still has to prefill.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.fleet.booked_prompt import BookedPrompt
    from headgate.fleet.rates import Rates
    from headgate.fleet.reading import EngineReading

SETTLED_S = 0.25
"""What was sent later than this before a reading may not be in its figures: engines count after each step."""
PACE_GOOD_S = 30.0
"""An engine's own mean time between tokens is good for so long."""
MIN_STEPS = 8
DECODING = 4.0
"""An answer tells the pace of decoding if it took at least so many times as long as its prompt."""
SLOWER = 1 + 1 / 64
"""The fastest answer is forgotten: the pace may be so much slower with each."""


class UnseenPrompts:
    """Of one endpoint, from booking to end."""

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
        """Whether it was there."""
        if booking not in self._bookings:
            return False
        del self._bookings[booking]
        self.owed_tokens -= booking.owed_tokens
        return True

    def read(self, reading: EngineReading | None) -> None:
        """Notes the pace that the engine reports; None is nothing any more."""
        if reading is None:
            self._pace_good_until = -math.inf
        elif reading.tpot_s and reading.tpot_at is not None:
            self._pace_s, self._pace_good_until = reading.tpot_s, reading.tpot_at + PACE_GOOD_S

    def step_s(self, booking: BookedPrompt, steps: int, rates: Rates, now: float) -> float:
        """Seconds between the tokens of an answer that is here, in so many steps; 0 where nothing is known.

        As the engine reports it, else as streams have shown it. Where there are neither, it is that of the
        fastest answer of late: nothing but its prompt and its tokens took time.
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
        """The least and most tokens that an engine has to prefill of them, which had so many waiting at `at`:
        those, at most one besides that it is at, and what was sent just before."""
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
