"""Allowances that are refilled with time: frames without content, and abandoned streams."""

from __future__ import annotations

from typing import Final

from headgate.http2.limits import Limits

BURST_FRAMES: Final = 1000.0
"""Frames without content that a peer may send at once."""
FRAMES_PER_S: Final = 200.0
FRAMES_PER_CALL: Final = 16.0
"""Refill for each stream that begins: for its windows and its end."""
SENT_BYTES_PER_FRAME: Final = 1024
"""Bytes sent to the peer that refill the allowance by one frame: it has to open windows for them."""
COSTLY_FRAME_BYTES: Final = 256
"""A longer frame counts once more for each multiple of this."""


class Allowance:
    """Counts down from `burst`, and up again with time."""

    __slots__ = ("_at_s", "_burst", "_left", "_per_s")

    def __init__(self, burst: float, per_s: float, now_s: float) -> None:
        self._burst = burst
        self._per_s = per_s
        self._left = burst
        self._at_s = now_s

    def spend(self, cost: float, now_s: float, refill: float = 0.0) -> bool:
        """Whether the peer may do this now; `refill`: what it may do besides that of passed time."""
        came = (now_s - self._at_s) * self._per_s + refill
        self._left = min(self._left + came, self._burst) - cost
        self._at_s = now_s
        return self._left >= 0.0


class Allowances:
    """What one peer may do besides sending data. Methods return False if it did too much."""

    __slots__ = ("_abandoned", "_counted_calls", "_frames", "_sent_bytes", "calls")

    def __init__(self, now_s: float, limits: Limits) -> None:
        self._frames = Allowance(BURST_FRAMES, FRAMES_PER_S, now_s)
        self._abandoned = Allowance(float(limits.abandoned_burst), float(limits.abandoned_per_s), now_s)
        self._sent_bytes = 0
        self._counted_calls = 0
        self.calls = 0
        """Streams that have begun."""

    def frame(self, size: int, sent_bytes: int, now_s: float) -> bool:
        """The peer sent a frame without content.

        `size`: of its payload. `sent_bytes`: all that it has been sent since the beginning.
        """
        refill = (self.calls - self._counted_calls) * FRAMES_PER_CALL
        refill += (sent_bytes - self._sent_bytes) / SENT_BYTES_PER_FRAME
        self._counted_calls, self._sent_bytes = self.calls, sent_bytes
        return self._frames.spend(1 + size // COSTLY_FRAME_BYTES, now_s, refill)

    def abandoned_call(self, now_s: float) -> bool:
        """The peer cancelled a stream before anything was sent for it."""
        return self._abandoned.spend(1, now_s)
