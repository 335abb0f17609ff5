"""People who talk with an assistant: each turn sends the whole conversation again."""

from __future__ import annotations

import heapq
import random
from typing import Annotated, NamedTuple

from headgate.simulator.traces import TOKEN_S, TimedRequest
from headgate.simulator.workloads.workload import Blocks, Workload, fixed_tokens, says, tokens

_WARM_UP = 3.0
"""So many times as long as a conversation lasts passes before the first request that is told."""


class _Turn(NamedTuple):
    """A turn to come."""

    at_s: float
    session: int
    history: tuple[int, ...]
    """Hashes of the full blocks of the turn before and its answer."""
    context: int
    """Tokens so far: prompt and answer of the turn before."""


class Chat(Workload, frozen=True, kw_only=True):
    """Conversations of several turns under one system prompt; `rate` counts turns."""

    turns: Annotated[float, says("Turns of a conversation, on average.", ge=1, le=1000)] = 5.0
    think_s: Annotated[float, says("Seconds between an answer and the next turn, on average.", ge=0)] = 20.0
    system_tokens: Annotated[int, fixed_tokens("the system prompt, the same for all")] = 500
    user_tokens: Annotated[int, tokens("what a person writes")] = 150
    output_tokens: Annotated[int, tokens("an answer")] = 250

    def generate(self, rng: random.Random) -> list[TimedRequest]:
        """The requests of a service that has been in use for a while: conversations are under way."""
        blocks = Blocks(self.block_tokens)
        system = blocks.full(self.system_tokens)
        lasts_s = self.turns * (self.think_s + self.output_tokens * TOKEN_S)
        # Conversations begin more rarely than turns come.
        begins = (at_s * self.turns - _WARM_UP * lasts_s for at_s in self.arrivals(rng))
        to_come = [_Turn(next(begins), 0, system, self.system_tokens)]
        told: list[TimedRequest] = []
        while len(told) < self.requests:
            turn = heapq.heappop(to_come)
            if turn.history is system:  # the first of its conversation: the next one is to begin
                heapq.heappush(to_come, _Turn(next(begins), turn.session + 1, system, self.system_tokens))
            request = self._request(turn, blocks, rng)
            if request.at_s >= 0:
                told.append(request)
            if rng.random() >= 1 / self.turns:
                heapq.heappush(to_come, self._next(request, rng))
        return told

    def _request(self, turn: _Turn, blocks: Blocks, rng: random.Random) -> TimedRequest:
        prompt_tokens = turn.context + self.length(self.user_tokens, rng)
        output_tokens = self.length(self.output_tokens, rng)
        prefix = blocks.prompt(turn.history, prompt_tokens)
        full = prefix[: prompt_tokens // self.block_tokens]
        return TimedRequest(
            at_s=turn.at_s,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            prefix=prefix,
            answer=blocks.behind(full, prompt_tokens + output_tokens),
            block_tokens=self.block_tokens,
            session=turn.session,
        )

    def _next(self, request: TimedRequest, rng: random.Random) -> _Turn:
        thinks_s = rng.expovariate(1 / self.think_s) if self.think_s else 0.0
        return _Turn(
            at_s=request.at_s + request.output_tokens * TOKEN_S + thinks_s,
            session=request.session,
            history=request.prefix[: request.prompt_tokens // self.block_tokens] + request.answer,
            context=request.prompt_tokens + request.output_tokens,
        )
