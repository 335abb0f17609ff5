"""Round robin: picks the endpoint that was picked longest ago."""

from __future__ import annotations

import random
from collections.abc import Sequence

from headgate.fleet import EndpointState
from headgate.scheduling.policy import Policy
from headgate.scheduling.request import Choice, Request

MAX_KNOWN = 4096
"""Endpoints whose turns are remembered, least recently picked ones dropped first."""


class RoundRobin(Policy):
    """In turn, whatever their load; endpoints that were never picked first, in the pool's order."""

    name = "round-robin"

    def __init__(self) -> None:
        self._turns: dict[EndpointState, int] = {}
        self._count = 0

    def pick(
        self, request: Request, candidates: Sequence[EndpointState], now: float, rng: random.Random
    ) -> Choice | None:
        turns = self._turns
        return Choice(load=min(candidates, key=lambda load: turns.get(load, 0)))

    def booked(self, request: Request, choice: Choice, now: float) -> None:
        self._count += 1
        self._turns.pop(choice.load, None)
        self._turns[choice.load] = self._count
        if len(self._turns) > MAX_KNOWN:
            del self._turns[next(iter(self._turns))]

    def why(self, request: Request, load: EndpointState, choice: Choice, now: float) -> str:
        return "its turn" if load is choice.load else "its turn comes later"
