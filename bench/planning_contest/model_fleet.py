"""The replicas of one model, of several variants, and the gateway that spreads its requests over them."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headgate.planning.load import PROMPT_SQUARES, UNBEGUN_TOKENS
from headgate.requests.traffic import PoolTraffic
from headgate.simulator.autoscaling import Ledger, ScaledFleet, Work
from headgate.simulator.autoscaling.scaled_fleet import least_loaded
from headgate.simulator.autoscaling.signals import expected_output
from headgate.simulator.fleet import Slo
from planning_contest.hardware import Variant

__all__ = ["Model", "ModelFleet"]


class Model(NamedTuple):
    """A model and its requests."""

    name: str
    works: Sequence[Work]
    slo: Slo
    priority: int = 1
    """1 is the most important."""


class ModelFleet:
    """One model. A request goes to the least loaded replica of all; with weights, of a variant that is drawn
    by the weights of its ready replicas."""

    def __init__(
        self, model: Model, variants: Sequence[Variant], cold_start_s: float, begins_with: Mapping[str, int]
    ) -> None:
        self.model = model
        self.ledger = Ledger(len(model.works))
        self.traffic = PoolTraffic(0.0)
        self.held: deque[Work] = deque()
        """Requests that wait in the gateway, since no replica is ready."""
        self.fleets = {
            each.name: ScaledFleet(each.engine, cold_start_s, self.ledger, begins_with.get(each.name, 0))
            for each in variants
        }
        self.weights: Mapping[str, float] = {}
        """Of one replica of each variant; empty: all are compared by their load."""
        self._costs = {each.name: each.cost for each in variants}
        self._rng = random.Random(model.name)

    @property
    def current(self) -> dict[str, int]:
        """Replicas that serve or start."""
        return {name: fleet.current for name, fleet in self.fleets.items()}

    @property
    def ready(self) -> dict[str, int]:
        return {name: len(fleet.ready) for name, fleet in self.fleets.items()}

    @property
    def in_flight(self) -> int:
        return len(self.held) + sum(each.in_flight for each in self.fleets.values())

    @property
    def dollars(self) -> float:
        """Of replicas that start, serve or drain, until now."""
        cents = sum(fleet.replica_s * self._costs[name] for name, fleet in self.fleets.items()) / 3600
        return cents / 100

    def metrics(self, now: float) -> dict[str, float]:
        """What a gateway tells, by the names of its signals."""
        recent = self.traffic.recent(now)
        return {
            "headgate:arrivals": recent.arrivals_per_s,
            "headgate:prompt_tokens": recent.prompt_tokens_per_s,
            "headgate:output_tokens": recent.output_tokens_per_s,
            "headgate:requests_running": float(self.in_flight - len(self.held)),
            "headgate:requests_waiting": float(len(self.held)),
            PROMPT_SQUARES: recent.prompt_squares_per_s,
            UNBEGUN_TOKENS: float(
                sum(each.queued_tokens for fleet in self.fleets.values() for each in fleet.ready)
            ),
        }

    def advance(self, now: float) -> None:
        for fleet in self.fleets.values():
            fleet.advance(now)
        while self.held and any(fleet.ready for fleet in self.fleets.values()):
            self._send(self.held.popleft(), now)

    def arrive(self, work: Work) -> None:
        """A request arrives, at its time."""
        if any(each.starting and each.starting[0][0] <= work.at_s for each in self.fleets.values()):
            self.advance(work.at_s)
        self.ledger.arrive(work)
        expected = expected_output(self.ledger)
        self.traffic.entered(work.at_s).asks(work.uncached_tokens, round(expected), 0)
        self._send(work, work.at_s)

    def _send(self, work: Work, now: float) -> None:
        ready = {name: fleet.ready for name, fleet in self.fleets.items() if fleet.ready}
        if not ready:
            self.held.append(work)
            return
        weights = [len(replicas) * self.weights.get(name, 0.0) for name, replicas in ready.items()]
        if sum(weights) > 0:
            replicas = self._rng.choices(list(ready.values()), weights)[0]
        else:
            replicas = [each for replicas in ready.values() for each in replicas]
        least_loaded(replicas, now).take(work, now)
