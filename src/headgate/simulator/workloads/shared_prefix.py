"""Many questions about few texts: what a cache-aware router is for.

The sizes are those of the published comparison of llm-d's optimized baseline: 150 system prompts of 6,000
tokens, questions of 1,200, answers of 1,000.
"""

from __future__ import annotations

import random
from typing import Annotated

from headgate.simulator.traces import TimedRequest
from headgate.simulator.workloads.workload import Blocks, Workload, fixed_tokens, says, tokens


class SharedPrefix(Workload, frozen=True, kw_only=True):
    """Independent questions, each behind one of a number of long shared beginnings."""

    prefixes: Annotated[int, says("Beginnings to choose from, all equally often.", ge=1, le=100_000)] = 150
    prefix_tokens: Annotated[int, fixed_tokens("a beginning")] = 6000
    question_tokens: Annotated[int, tokens("what follows it")] = 1200
    output_tokens: Annotated[int, tokens("an answer")] = 1000

    def generate(self, rng: random.Random) -> list[TimedRequest]:
        blocks = Blocks(self.block_tokens)
        shared = [blocks.full(self.prefix_tokens) for _ in range(self.prefixes)]
        told = []
        for _, at_s in zip(range(self.requests), self.arrivals(rng), strict=False):
            prompt_tokens = self.prefix_tokens + self.length(self.question_tokens, rng)
            told.append(
                TimedRequest(
                    at_s=at_s,
                    prompt_tokens=prompt_tokens,
                    output_tokens=self.length(self.output_tokens, rng),
                    prefix=blocks.prompt(rng.choice(shared), prompt_tokens),
                    block_tokens=self.block_tokens,
                )
            )
        return told
