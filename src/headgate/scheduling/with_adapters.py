"""Wraps any policy, and sends requests for adapters to their homes."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from headgate.fleet import EndpointState
from headgate.scheduling.homes import Homes
from headgate.scheduling.policy import Policy, Refused
from headgate.scheduling.request import Choice, Request


class WithAdapters(Policy):
    """Leaves the choice to a policy, among the homes of the request's adapter if it has one."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.homes = Homes()
        self.name = policy.name
        self.uses_prefix = policy.uses_prefix
        self.first_block_bytes = policy.first_block_bytes
        self.judges_decoding = policy.judges_decoding
        self.remote_tokens = policy.remote_tokens
        self.marks_responses = policy.marks_responses

    def pick(
        self, request: Request, candidates: Sequence[EndpointState], now: float, rng: random.Random
    ) -> Choice | None:
        if request.adapter:
            candidates = self.homes.among(request.adapter, candidates, now)
        return self.policy.pick(request, candidates, now, rng)

    def booked(self, request: Request, choice: Choice, now: float) -> None:
        if request.adapter:
            self.homes.booked(request.adapter, choice.load, now)
        self.policy.booked(request, choice, now)

    def weigh(self, weights: Mapping[EndpointState, float]) -> None:
        self.policy.weigh(weights)

    def why(self, request: Request, load: EndpointState, choice: Choice, now: float) -> str:
        return self.policy.why(request, load, choice, now)

    def reasons(
        self, request: Request, candidates: Sequence[EndpointState], choice: Choice | None, now: float
    ) -> Mapping[EndpointState, str]:
        if not request.adapter:
            return self.policy.reasons(request, candidates, choice, now)
        asked = self.homes.among(request.adapter, candidates, now)
        passed_over = f"adapter {request.adapter} is kept on others"
        lacks = f"answered 404 for adapter {request.adapter}"
        return {
            **{load: lacks if request.adapter in load.models.lacking else passed_over for load in candidates},
            **self.policy.reasons(request, asked, choice, now),
        }

    def scores(
        self, request: Request, candidates: Sequence[EndpointState], now: float
    ) -> Mapping[EndpointState, float]:
        if request.adapter:
            candidates = self.homes.among(request.adapter, candidates, now)
        return self.policy.scores(request, candidates, now)

    def refusal(self, request: Request, candidates: Sequence[EndpointState], now: float) -> Refused:
        if request.adapter:
            candidates = self.homes.among(request.adapter, candidates, now)
        return self.policy.refusal(request, candidates, now)

    def failures(self) -> Mapping[str, int]:
        return self.policy.failures()

    def marks(self, request: Request, choice: Choice) -> Sequence[tuple[bytes, bytes]]:
        return self.policy.marks(request, choice)
