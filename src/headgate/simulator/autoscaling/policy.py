"""An AutoscalingPolicy as a controller of a replay: the decisions of the real one, in virtual time."""

from __future__ import annotations

from headgate.autoscaling import Bounds, Decision, History, Observation, Policy, decide
from headgate.simulator.autoscaling import signals
from headgate.simulator.autoscaling.scaled_fleet import ScaledFleet

PERIOD_S = 15.0


class PolicyController:
    """Passes as often as the real controller does."""

    def __init__(self, policy: Policy, bounds: Bounds, period_s: float = PERIOD_S) -> None:
        self.period_s = period_s
        self._policy = policy
        self._bounds = bounds
        self._history = History.empty()
        self._signals = signals.Signals()
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
            totals=self._signals.totals(fleet),
            is_wanted=bool(fleet.held),
        )
        decision, self._history = decide(self._policy, self._bounds, self._history, observation)
        self.decisions.append(decision)
        return decision.desired
