"""concurrency-detector: requests in flight from this gateway, relative to a limit per endpoint."""

from __future__ import annotations

from typing import Literal, TypeAlias

from headgate.flow.capacity.capacity import Capacity
from headgate.flow.capacity.ceilings import Ceilings

ConcurrencyMode: TypeAlias = Literal["requests", "tokens", "hybrid"]


class Concurrency(Capacity):
    """Requests in flight / (limit * endpoints), the same for tokens, or the greater of both (hybrid).

    Tokens are those of prompts without a first token, and all that responses are expected to have.
    """

    def __init__(
        self,
        ceilings: Ceilings | None = None,
        *,
        mode: ConcurrencyMode = "requests",
        max_requests: int = 100,
        max_tokens: int = 1_000_000,
    ) -> None:
        super().__init__(ceilings)
        self._mode = mode
        self._max_requests = max_requests
        self._max_tokens = max_tokens

    def saturation(self, now: float) -> float:
        return self.fullness(now) / self.share if self.loads else 1.0

    def fullness(self, now: float) -> float:
        if not self.loads:
            return 0.0
        requests = self.in_flight() / (self._max_requests * len(self.loads))
        if self._mode == "requests":
            return requests
        tokens = sum(load.prefill_tokens + load.output_tokens for load in self.loads)
        share = tokens / (self._max_tokens * len(self.loads))
        return share if self._mode == "tokens" else max(requests, share)
