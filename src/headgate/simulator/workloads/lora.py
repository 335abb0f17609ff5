"""Many adapters, few of them popular: how a router keeps those that are loaded where they are.

The shares are those of the adapter experiments of the Gateway API Inference Extension: 15 adapters, of which
a first third gets 60 % of the requests, a second 30 %, and the rest 10 %.
"""

from __future__ import annotations

import random
from typing import Annotated

from headgate.simulator.traces import TimedRequest
from headgate.simulator.workloads.workload import Blocks, Workload, fixed_tokens, says, tokens

_SHARES = (0.6, 0.3, 0.1)


class Lora(Workload, frozen=True, kw_only=True):
    """Requests for adapters lora-0, lora-1, ..., each with a system prompt of its own."""

    adapters: Annotated[
        int, says("Adapters, in three classes: 60, 30 and 10 % of requests.", ge=3, le=10_000)
    ] = 15
    system_tokens: Annotated[int, fixed_tokens("an adapter's system prompt")] = 200
    prompt_tokens: Annotated[int, tokens("what follows it")] = 400
    output_tokens: Annotated[int, tokens("an answer")] = 200

    def generate(self, rng: random.Random) -> list[TimedRequest]:
        blocks = Blocks(self.block_tokens)
        names = [f"lora-{number}" for number in range(self.adapters)]
        shared = {name: blocks.full(self.system_tokens) for name in names}
        classes = [names[third :: len(_SHARES)] for third in range(len(_SHARES))]
        told = []
        for _, at_s in zip(range(self.requests), self.arrivals(rng), strict=False):
            adapter = rng.choice(rng.choices(classes, weights=_SHARES)[0])
            prompt_tokens = self.system_tokens + self.length(self.prompt_tokens, rng)
            told.append(
                TimedRequest(
                    at_s=at_s,
                    prompt_tokens=prompt_tokens,
                    output_tokens=self.length(self.output_tokens, rng),
                    prefix=blocks.prompt(shared[adapter], prompt_tokens),
                    block_tokens=self.block_tokens,
                    adapter=adapter,
                )
            )
        return told
