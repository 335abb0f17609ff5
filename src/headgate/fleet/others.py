"""The work of other gateways on the same endpoint, as its engine reports it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.fleet.reading import EngineReading


class OthersQueue:
    """The requests that other gateways have waiting at one endpoint."""

    __slots__ = ("queue_s", "read_at")

    def __init__(self) -> None:
        self.queue_s = 0.0
        """Seconds of the endpoint's queue that the last reading attributes to others."""
        self.read_at = -math.inf
        """Time of that reading; minus infinity if there is none."""

    def clear(self) -> None:
        """Forget the last reading."""
        self.queue_s, self.read_at = 0.0, -math.inf

    def read(self, reading: EngineReading, own_requests: int, prompt_tokens: float, token_s: float) -> int:
        """Apply a reading, taken while the engine had `own_requests` of ours. Returns how many waiting
        requests are of others; they are assumed to have `prompt_tokens` each, which take `token_s` per
        token."""
        others = 0
        if reading.waiting and reading.running is not None:
            others = min(reading.waiting, max(0, reading.waiting + reading.running - own_requests))
        self.queue_s, self.read_at = others * prompt_tokens * token_s, reading.at
        return others

    def done_at(self, own_done_at: float) -> float:
        """When the queue is prefilled, if our part of it is at `own_done_at`."""
        return max(own_done_at, self.read_at) + self.queue_s
