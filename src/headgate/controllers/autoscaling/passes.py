"""One pass over a binding: read its Pods, take what gateways tell, decide, and write replicas."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headgate import api, cluster
from headgate.autoscaling import History, Observation, Policy
from headgate.controllers.autoscaling import deciding, observing, starts
from headgate.controllers.autoscaling.deciding import Outcome
from headgate.controllers.autoscaling.following import BINDING, Followed
from headgate.controllers.autoscaling.measuring import Measured, Meter
from headgate.controllers.autoscaling.observing import Found, Load
from headgate.controllers.autoscaling.pools import is_to_serve
from headgate.controllers.autoscaling.scaling import Scaled, Scaler
from headgate.controllers.autoscaling.targets import Target
from headgate.controllers.autoscaling.waking import Sleeper, Waking
from headgate.observe.signals import PoolLoad, Signals


@dataclass
class Memory:
    """What is known of a binding besides its objects."""

    uid: str
    history: History
    measured: Measured = field(default_factory=Measured)
    failures: starts.Failures = field(default_factory=starts.Failures)
    written_at: float = 0.0
    """When its status was written."""
    quiet_until: float = 0.0
    """Until then, nothing is decided while no request comes."""
    went_up: bool | None = None
    """The direction of the last change of replicas."""


class Pass(NamedTuple):
    """What became of it."""

    outcome: Outcome
    found: Sequence[Found]
    observation: Observation
    load: Load
    problems: Sequence[str]
    """Why Pods or queries were not measured."""
    failed: str
    """Why no Pod becomes ready, as far as one says; or empty."""
    rejected: Sequence[str]
    """Why the API server rejected replicas, for each target for which it did."""
    is_outdated: bool
    """Whether a workload had changed meanwhile, so that it is to be looked at again."""


class Passes:
    """Runs passes of any number of bindings at the same time."""

    def __init__(
        self,
        client: cluster.Client,
        followed: Followed,
        signals: Signals,
        meter: Meter,
    ) -> None:
        """`meter` is closed with it."""
        self._followed = followed
        self._signals = signals
        self._meter = meter
        self.scaler = Scaler(client)
        self.waking = Waking(client, followed.pools)

    async def run(
        self,
        binding: api.AutoscalingPolicyBinding,
        policy: Policy,
        targets: Sequence[Target],
        memory: Memory,
        now: float,
    ) -> Pass:
        """Raises ApiError other than NotFound and Conflict, and than Forbidden and Invalid for replicas."""
        measured = memory.measured
        found = self._found(binding, targets)
        if await self._meter.measure(measured, policy, found, now):
            found = self._found(binding, targets)  # again: that took time
        pools = self._pools_of(found)
        load = self._load(policy, found, pools, measured)
        observation = observing.observation(found, measured.values, load, now)
        outcome = deciding.decide_all(binding, policy, found, memory.history, observation, measured.values)
        memory.history = outcome.history
        is_outdated, rejected = False, []
        for each, replicas in zip(found, outcome.replicas, strict=True):
            try:
                done = await self.scaler.scale(each.target.scalable, replicas)
            except (cluster.Forbidden, cluster.Invalid) as error:
                rejected.append(f"{each.target.workload} cannot get {replicas}: {error}")
            else:
                is_outdated |= done is Scaled.OUTDATED
        noted, failed = {}, memory.failures.told(found, memory.history.starts.coming)
        if not any(outcome.replicas):
            failed = ""  # nothing starts: the next request is to try again
        if deciding.may_be_zero(binding, found):
            noted = starts.notes(memory.history.expected_start_s, failed)
        await self.waking.note(_sleeper(binding.metadata.key), pools, noted)
        return Pass(outcome, found, observation, load, measured.problems, failed, rejected, is_outdated)

    def fed_by(self, pool: api.ObjectRef) -> Collection[api.ObjectKey]:
        """The bindings whose targets a pool reaches."""
        return [each.key for each in self.waking.fed_by(pool) if each.kind == BINDING]

    def is_idle(self, key: api.ObjectKey) -> bool:
        """Whether gateways are known to have no requests for the targets of a binding."""
        loads = [self._signals.of(pool) for pool in self.waking.pools_of(_sleeper(key))]
        return bool(loads) and all(
            load.idle_s is not None and not load.waiting_for_endpoints for load in loads
        )

    async def leave(self, key: api.ObjectKey) -> None:
        """The binding does not scale any longer: its pools do not start from zero."""
        await self.waking.note(_sleeper(key), (), {})

    async def aclose(self) -> None:
        await self._meter.aclose()

    def statistics(self) -> dict[str, int]:
        return {**self._meter.statistics(), "scaled": self.scaler.writes}

    def _found(self, binding: api.AutoscalingPolicyBinding, targets: Sequence[Target]) -> list[Found]:
        key = binding.metadata.key
        return [
            Found.of(
                target,
                [pod for pod in self._followed.pods(key, index, target) if is_to_serve(pod)],
                self.scaler.replicas(target.scalable),
            )
            for index, target in enumerate(targets)
        ]

    def _pools_of(self, found: Sequence[Found]) -> dict[api.ObjectRef, float | None]:
        """The pools of all targets, each with the share of its ready Pods that are theirs, if it is known."""
        own = [each.target.scalable.members for each in found]
        shares: dict[api.ObjectRef, float | None] = {}
        for each in found:
            for pool in self._followed.pools.of(each.target.scalable):
                if pool not in shares:
                    shares[pool] = self._followed.pools.share(pool, own)
        return shares

    def _load(
        self,
        policy: Policy,
        found: Sequence[Found],
        pools: Mapping[api.ObjectRef, float | None],
        measured: Measured,
    ) -> Load:
        current = sum(each.current for each in found)
        told = observing.load_of(
            policy,
            current,
            [
                (_UNKNOWN, 0.0) if share is None else (self._signals.of(pool), share)
                for pool, share in pools.items()
            ],
        )
        return told._replace(totals={**told.totals, **measured.totals})


def _sleeper(binding: api.ObjectKey) -> Sleeper:
    return Sleeper(BINDING, binding)


_UNKNOWN = PoolLoad(is_known=False, missing=("only Pods of others in the pool are ready",))
