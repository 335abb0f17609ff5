"""The traffic patterns, each designed to distinguish routers in one respect."""

from __future__ import annotations

import heapq
import random
from typing import Annotated, NamedTuple

from headgate.traffic.traces import TOKEN_S, TimedRequest
from headgate.traffic.workloads.workload import Blocks, Workload, fixed_tokens, says, tokens

# Requests as of a public chat service: no shared prompts, and lengths that vary much.
#
# The averages are about those of the sample of ShareGPT's conversations that vLLM's benchmarks use: the first
# prompt and response of each, without those of more than 2,048 tokens in all. Lengths are lognormal.
_TRIES = 100


class Independent(Workload, frozen=True, kw_only=True):
    """Requests that share nothing, with the lengths of ShareGPT's conversations."""

    prompt_tokens: Annotated[int, tokens("a prompt")] = 215
    output_tokens: Annotated[int, tokens("an answer")] = 198
    variation: Annotated[
        float, says("How far lengths lie around their average: their deviation as a share of it.", ge=0, le=5)
    ] = 1.2
    longest_tokens: Annotated[
        int, says("Requests with more tokens, prompt and answer, are drawn again.", ge=2, le=20_000_000)
    ] = 2048

    def generate(self, rng: random.Random) -> list[TimedRequest]:
        told = []
        for _, at_s in zip(range(self.requests), self.arrivals(rng), strict=False):
            prompt, output = self._lengths(rng)
            told.append(TimedRequest(at_s=at_s, prompt_tokens=prompt, output_tokens=output))
        return told

    def _lengths(self, rng: random.Random) -> tuple[int, int]:
        for _ in range(_TRIES):
            prompt = self.length(self.prompt_tokens, rng)
            output = self.length(self.output_tokens, rng)
            if prompt + output <= self.longest_tokens:
                return prompt, output
        half = self.longest_tokens // 2  # the averages themselves are too long
        return min(prompt, half), min(output, half)


# Many questions about few texts: the use case of cache-aware routers.
#
# The sizes are those of the published comparison of llm-d's optimized baseline: 150 system prompts of 6,000
# tokens, questions of 1,200, outputs of 1,000.
class SharedPrefix(Workload, frozen=True, kw_only=True):
    """Independent questions, each behind one of several long shared prefixes."""

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


# Conversations with an assistant: each turn sends the whole conversation again.
_WARM_UP = 3.0
"""Warm-up before the first request that is returned, in durations of a conversation."""


class _Turn(NamedTuple):
    """A future turn."""

    at_s: float
    session: int
    history: tuple[int, ...]
    """Hashes of the full blocks of the previous turn and its output."""
    context: int
    """Tokens so far: prompt and output of the previous turn."""


class Chat(Workload, frozen=True, kw_only=True):
    """Conversations of several turns with one system prompt; `rate` counts turns."""

    turns: Annotated[float, says("Turns of a conversation, on average.", ge=1, le=1000)] = 5.0
    think_s: Annotated[float, says("Seconds between an answer and the next turn, on average.", ge=0)] = 20.0
    system_tokens: Annotated[int, fixed_tokens("the system prompt, the same for all")] = 500
    user_tokens: Annotated[int, tokens("what a person writes")] = 150
    output_tokens: Annotated[int, tokens("an answer")] = 250

    def generate(self, rng: random.Random) -> list[TimedRequest]:
        """The requests of a service in steady state: conversations are already in progress."""
        blocks = Blocks(self.block_tokens)
        system = blocks.full(self.system_tokens)
        lasts_s = self.turns * (self.think_s + self.output_tokens * TOKEN_S)
        # Conversations begin less often than turns arrive.
        begins = (at_s * self.turns - _WARM_UP * lasts_s for at_s in self.arrivals(rng))
        to_come = [_Turn(next(begins), 0, system, self.system_tokens)]
        told: list[TimedRequest] = []
        while len(told) < self.requests:
            turn = heapq.heappop(to_come)
            if turn.history is system:  # the first of its conversation: schedule the next conversation
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


# Simultaneous requests: how evenly a router spreads them before it gets any feedback.
class Burst(Workload, frozen=True, kw_only=True):
    """Bursts of requests that share nothing; between bursts there are none."""

    burst: Annotated[int, says("Requests that arrive at the same moment.", ge=1, le=1_000_000)] = 800
    requests: Annotated[int, says("Requests in all.", ge=1, le=10_000_000)] = 800
    prompt_tokens: Annotated[int, tokens("a prompt")] = 1000
    output_tokens: Annotated[int, tokens("an answer")] = 1000

    def generate(self, rng: random.Random) -> list[TimedRequest]:
        """Bursts follow each other so that the average rate is `rate`."""
        return [
            TimedRequest(
                at_s=(number // self.burst) * self.burst / self.rate,
                prompt_tokens=self.length(self.prompt_tokens, rng),
                output_tokens=self.length(self.output_tokens, rng),
            )
            for number in range(self.requests)
        ]


# Many adapters, few of them popular: whether a router keeps requests where their adapters are loaded.
#
# The shares are those of the adapter experiments of the Gateway API Inference Extension: 15 adapters, of
# which the first third gets 60 % of requests, the second 30 %, and the rest 10 %.
_SHARES = (0.6, 0.3, 0.1)


class Lora(Workload, frozen=True, kw_only=True):
    """Requests for adapters lora-0, lora-1, ..., each with its own system prompt."""

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


# Very long prompts among ordinary ones: a router that counts requests treats them as equal.
class LongContext(Workload, frozen=True, kw_only=True):
    """Short questions, and some questions about long documents, each document asked about several times."""

    rate: Annotated[float, says("Requests a second, at random times.", ge=0.001, le=1e6)] = 1.0
    long_share: Annotated[float, says("Share of requests that have a document.", ge=0, le=1)] = 0.2
    documents: Annotated[int, says("Documents to choose from, all equally often.", ge=1, le=100_000)] = 30
    document_tokens: Annotated[int, tokens("a document")] = 100_000
    question_tokens: Annotated[int, tokens("a question, with a document or without")] = 500
    output_tokens: Annotated[int, tokens("an answer")] = 300

    def generate(self, rng: random.Random) -> list[TimedRequest]:
        blocks = Blocks(self.block_tokens)
        lengths = [self.length(self.document_tokens, rng) for _ in range(self.documents)]
        documents = [(length, blocks.full(length)) for length in lengths]
        told = []
        for _, at_s in zip(range(self.requests), self.arrivals(rng), strict=False):
            length, shared = rng.choice(documents) if rng.random() < self.long_share else (0, ())
            prompt_tokens = length + self.length(self.question_tokens, rng)
            told.append(
                TimedRequest(
                    at_s=at_s,
                    prompt_tokens=prompt_tokens,
                    output_tokens=self.length(self.output_tokens, rng),
                    prefix=blocks.prompt(shared, prompt_tokens),
                    block_tokens=self.block_tokens,
                )
            )
        return told


# One tenant floods the fleet for a while: how much other tenants notice.
class NoisyNeighbour(Workload, frozen=True, kw_only=True):
    """Quiet tenants at an even rate, and a noisy one that sends bursts of long prompts; no sharing."""

    quiet_tenants: Annotated[int, says("Tenants beside the noisy one.", ge=1, le=10_000)] = 4
    noise_share: Annotated[float, says("Share of requests that the noisy one sends.", ge=0, le=1)] = 0.5
    noise_every_s: Annotated[float, says("Seconds from the start of a burst to the next.", ge=0.1)] = 30.0
    noise_lasts_s: Annotated[float, says("Seconds that a burst lasts.", ge=0.01)] = 5.0
    noise_tokens: Annotated[int, tokens("a prompt of the noisy one")] = 4000
    prompt_tokens: Annotated[int, tokens("a prompt of the others")] = 500
    output_tokens: Annotated[int, tokens("an answer")] = 200

    def generate(self, rng: random.Random) -> list[TimedRequest]:
        noisy = round(self.requests * self.noise_share)
        at_s = [rng.uniform(0, self.requests / self.rate) for _ in range(self.requests)]
        told = [
            self._request(self._in_burst(each), "noisy", self.noise_tokens, rng)
            if number < noisy
            else self._request(each, f"quiet-{number % self.quiet_tenants}", self.prompt_tokens, rng)
            for number, each in enumerate(at_s)
        ]
        return sorted(told, key=lambda request: request.at_s)

    def _in_burst(self, at_s: float) -> float:
        """Move a request of a period into the burst at its start."""
        periods, within_s = divmod(at_s, self.noise_every_s)
        lasts_s = min(self.noise_lasts_s, self.noise_every_s)
        return periods * self.noise_every_s + within_s * lasts_s / self.noise_every_s

    def _request(self, at_s: float, tenant: str, mean: int, rng: random.Random) -> TimedRequest:
        return TimedRequest(
            at_s=at_s,
            prompt_tokens=self.length(mean, rng),
            output_tokens=self.length(self.output_tokens, rng),
            tenant=tenant,
        )
