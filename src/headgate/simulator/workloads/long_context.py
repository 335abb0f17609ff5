"""Prompts as long as books among ordinary ones: a router that counts requests takes them for equal."""

from __future__ import annotations

import random
from typing import Annotated

from headgate.simulator.traces import TimedRequest
from headgate.simulator.workloads.workload import Blocks, Workload, says, tokens


class LongContext(Workload, frozen=True, kw_only=True):
    """Short questions, and among them questions about long documents, each asked about several times."""

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
