"""The requests of a replay as a fleet sees them, and what became of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from headgate.traffic.traces import TimedRequest


class Work(NamedTuple):
    """One request."""

    number: int
    """Its index among the requests of the replay."""
    at_s: float
    prompt_tokens: int
    uncached_tokens: int
    """Prompt tokens that are to be computed."""
    output_tokens: int


def work_of(requests: Sequence[TimedRequest]) -> list[Work]:
    """Requests in order of arrival. Every prompt is computed: replicas have no cache of prefixes."""
    return [
        Work(number, each.at_s, each.prompt_tokens, each.prompt_tokens, each.output_tokens)
        for number, each in enumerate(requests)
    ]


class Ledger:
    """First tokens and ends by the number of the request, and totals since the beginning."""

    __slots__ = (
        "arrived",
        "arrived_prompt",
        "ended_s",
        "finished",
        "finished_output",
        "finished_prompt",
        "first_s",
        "started",
        "started_uncached",
        "tpot_sum_s",
        "ttft_sum_s",
    )

    def __init__(self, requests: int) -> None:
        self.first_s = [math.nan] * requests
        self.ended_s = [math.nan] * requests
        self.arrived = self.arrived_prompt = 0
        self.started = self.started_uncached = 0
        """Requests with a first token, and their prefilled tokens."""
        self.ttft_sum_s = 0.0
        self.finished = self.finished_prompt = self.finished_output = 0
        self.tpot_sum_s = 0.0
        """Over finished requests, of their mean seconds per token."""

    def arrive(self, work: Work) -> None:
        self.arrived += 1
        self.arrived_prompt += work.prompt_tokens

    def first(self, work: Work, now: float) -> None:
        self.first_s[work.number] = now
        self.started += 1
        self.started_uncached += work.uncached_tokens
        self.ttft_sum_s += now - work.at_s

    def end(self, work: Work, now: float) -> None:
        self.ended_s[work.number] = now
        self.finished += 1
        self.finished_prompt += work.prompt_tokens
        self.finished_output += work.output_tokens
        if work.output_tokens > 1:
            self.tpot_sum_s += (now - self.first_s[work.number]) / (work.output_tokens - 1)
