"""An AutoscalingPolicy as a controller of a replay: the decisions of the real one, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.autoscaling import Bounds, Decision, History, Observation, Policy, decide
from headgate.simulator.autoscaling import signals
from headgate.simulator.autoscaling.run import Replay, Setting, replay
from headgate.simulator.autoscaling.scaled_fleet import ScaledFleet
from headgate.simulator.autoscaling.work import Work

PERIOD_S = 1.0
"""Signals of gateways come once a second, and each is a pass."""


class PolicyController:
    """One pass per period."""

    def __init__(self, policy: Policy, bounds: Bounds, period_s: float = PERIOD_S) -> None:
        self.period_s = period_s
        self._policy = policy
        self._bounds = bounds
        self._history = History.empty()
        self._created: dict[str, float] = {}
        self.decisions: list[Decision] = []

    def desired(self, fleet: ScaledFleet) -> int:
        for at_s, name in fleet.starting:
            self._created.setdefault(name, at_s - fleet.cold_start_s)
        observation = Observation(
            now=fleet.now,
            current=fleet.current,
            ready=len(fleet.ready),
            pods=signals.pods(fleet, self._created),
            totals=signals.totals(fleet),
            is_wanted=bool(fleet.held),
        )
        decision, self._history = decide(self._policy, self._bounds, self._history, observation)
        self.decisions.append(decision)
        return decision.desired


def replay_policy(
    works: Sequence[Work], policy: Policy, bounds: Bounds, setting: Setting
) -> tuple[Replay, list[Decision]]:
    """Replay a trace with a policy; returns also the decision of each pass."""
    controller = PolicyController(policy, bounds)
    return replay(works, controller, setting), controller.decisions
