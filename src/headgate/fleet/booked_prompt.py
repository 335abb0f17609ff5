"""A prompt in the queue of an endpoint, as its estimator keeps it there."""

from __future__ import annotations

import math


class BookedPrompt:
    """Of one request, from its booking on. Changed by the estimator of its endpoint."""

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
        """When it was booked."""
        self.is_streamed = is_streamed
        self.is_prefilled = False
        self.loads_adapter = False
        """Whether its adapter has to be loaded first."""
        self.position = self.owed_tokens = 0
        """Where it ends in the queue of the endpoint, and how long it is there."""
        self.is_settled = False
        """Whether it is owed no more, while it is in that queue: given up, or served before its turn."""
        self.overtaken_at = math.inf
        """When a later request had its first token, and this one had not."""
