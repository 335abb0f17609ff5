"""A prompt in the queue of an endpoint, as the endpoint's estimator tracks it."""

from __future__ import annotations

import math


class BookedPrompt:
    """The prompt of one request, from its booking on. Only the endpoint's estimator changes it."""

    __slots__ = (
        "at",
        "is_prefilled",
        "is_settled",
        "is_streamed",
        "loads_adapter",
        "overtaken_at",
        "owed_tokens",
        "position",
        "uncached_tokens",
    )

    def __init__(self, uncached_tokens: int, now: float, is_streamed: bool) -> None:
        self.uncached_tokens = uncached_tokens
        self.at = now
        """When the request was booked."""
        self.is_streamed = is_streamed
        self.is_prefilled = False
        self.loads_adapter = False
        """Whether its adapter has to be loaded first."""
        self.position = self.owed_tokens = 0
        """Its end position in the endpoint's queue, and its length there, in tokens."""
        self.is_settled = False
        """True once no work is owed for it although it is still in the queue: given up, or served out of
        order."""
        self.overtaken_at = math.inf
        """When a later request got its first token before this one; infinite if none has."""
