"""Everybody at once: how evenly a router spreads what comes before anything is heard of the first of it."""

from __future__ import annotations

import random
from typing import Annotated

from headgate.simulator.traces import TimedRequest
from headgate.simulator.workloads.workload import Workload, says, tokens


class Burst(Workload, frozen=True, kw_only=True):
    """Bursts of requests that share nothing; between bursts nothing comes."""

    burst: Annotated[int, says("Requests that arrive at the same moment.", ge=1, le=1_000_000)] = 800
    requests: Annotated[int, says("Requests in all.", ge=1, le=10_000_000)] = 800
    prompt_tokens: Annotated[int, tokens("a prompt")] = 1000
    output_tokens: Annotated[int, tokens("an answer")] = 1000

    def generate(self, rng: random.Random) -> list[TimedRequest]:
        """Bursts follow each other so that `rate` is kept on average."""
        return [
            TimedRequest(
                at_s=(number // self.burst) * self.burst / self.rate,
                prompt_tokens=self.length(self.prompt_tokens, rng),
                output_tokens=self.length(self.output_tokens, rng),
            )
            for number in range(self.requests)
        ]
