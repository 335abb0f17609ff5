"""Scales workloads by AutoscalingPolicies: reads, decides, writes and reports, each binding by itself.

A binding is decided when it is due and when something about it changes; one whose Pods respond slowly holds
up no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from headgate import api, cluster
from headgate.api.kthena_registry import AutoscalingPolicyBindingStatus
from headgate.autoscaling import History, Policy, compile_policy
from headgate.controllers import grants
from headgate.controllers.autoscaling import deciding, events, observing, status
from headgate.controllers.autoscaling.deciding import Outcome
from headgate.controllers.autoscaling.figures import Figures, Report
from headgate.controllers.autoscaling.following import Followed
from headgate.controllers.autoscaling.gateways import ServiceEndpoints
from headgate.controllers.autoscaling.measuring import Meter
from headgate.controllers.autoscaling.passes import Memory, Pass, Passes
from headgate.controllers.autoscaling.prometheus import Prometheus
from headgate.controllers.autoscaling.scaling import Scaler
from headgate.controllers.autoscaling.settings import AutoscalingSettings
from headgate.controllers.autoscaling.targets import Refusal, Target
from headgate.controllers.autoscaling.waking import Waking
from headgate.controllers.conditions import Finding
from headgate.controllers.status_writes import COMPONENT, write_status
from headgate.controllers.status_writes import Outcome as Written
from headgate.observe.signals import Signals

log = logging.getLogger(__name__)

ACCESS_PATIENCE_S = 5.0
"""How long a start waits for rights that were not there at once."""
WORDS_S, VALUES_S, HISTORY_S = 15.0, 60.0, 300.0
"""How often a status is written in which only words, only measured values, or only the history have changed.
A history that is older than two minutes holds replicas a little longer after a restart, and no more."""
SOON_S = 0.1


class Plan(NamedTuple):
    """What to scale, by what."""

    policy: Policy
    targets: Sequence[Target]


class Shared(NamedTuple):
    """Parts that another controller of the process may use."""

    followed: Followed
    signals: Signals
    scaler: Scaler
    waking: Waking


class AutoscalingController:
    """Follows AutoscalingPolicies, their bindings, and what these scale."""

    def __init__(
        self,
        client: cluster.Client,
        namespaces: Sequence[str] = (),
        settings: AutoscalingSettings | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        leadership: cluster.Leadership | None = None,
    ) -> None:
        self._client = client
        self._settings = settings or AutoscalingSettings()
        self._clock = clock
        self._leadership = leadership or cluster.Undisputed()
        self._queue: cluster.WorkQueue[api.ObjectKey] = cluster.WorkQueue()
        self._policies: cluster.WorkQueue[api.ObjectKey] = cluster.WorkQueue()
        self._followed = Followed(self._touched, self._policies.add, namespaces)
        self._signals = Signals()
        self._signals.on_starved = self._signals.on_risen = self._needs_more
        meter = Meter(self._settings, _prometheus(self._settings))
        self._passes = Passes(client, self._followed, self._signals, meter)
        self._events = cluster.EventRecorder(client, COMPONENT, clock)
        self._memories: dict[api.ObjectKey, Memory] = {}
        self.figures = Figures()
        self.needs_more: Callable[[api.ObjectRef], object] = lambda pool: None
        """Called with pools whose work has risen, or that a request waits for."""
        self.loaded = asyncio.Event()
        """Whether all objects are loaded."""

    async def run(self, on_ready: Callable[[], None] = lambda: None) -> None:
        """Run until cancelled; calls `on_ready` once all objects are loaded."""
        informers = self._followed.informers(self._client)
        informers += self._gateways()
        async with contextlib.aclosing(self._passes), asyncio.TaskGroup() as tasks:
            for informer in informers:
                tasks.create_task(informer.run())
            tasks.create_task(self._signals.run())
            # Before that, targets that exist would be taken for missing.
            await asyncio.gather(*(informer.wait_known(ACCESS_PATIENCE_S) for informer in informers))
            await self._until_told()
            tasks.create_task(self._events.run())
            tasks.create_task(cluster.run_workers(self._queue, self._reconcile, self._settings.workers))
            tasks.create_task(cluster.run_workers(self._policies, self._judge, 1))
            tasks.create_task(self._sweep())
            self.loaded.set()
            on_ready()

    @property
    def is_ready(self) -> bool:
        """Whether all objects are loaded."""
        return self.loaded.is_set()

    def _gateways(self) -> list[cluster.Informer[Any]]:
        """Begin to follow the signals of all gateways."""
        named = self._settings.gateways
        self._signals.use(named)
        if not self._settings.gateway_service:
            return []
        service = self._client.key_of(self._settings.gateway_service)
        endpoints = ServiceEndpoints(
            self._client,
            service,
            self._settings.gateway_port,
            lambda urls: self._signals.use([*named, *urls]),
        )
        return [endpoints.informer]

    async def _until_told(self) -> None:
        """Wait a moment for the gateways, as without them metrics would be reported as missing."""
        for _ in range(int(ACCESS_PATIENCE_S / SOON_S)):
            known = self._signals.statistics()
            if known["gateways_known"] == known["gateways"]:
                return
            await asyncio.sleep(SOON_S)

    def _touched(self, key: api.ObjectKey) -> None:
        """Something about the binding has changed."""
        memory = self._memories.get(key)
        if memory is not None:
            memory.quiet_until = 0.0
        self._queue.add(key)

    def _needs_more(self, pool: api.ObjectRef) -> None:
        """A request waits for a pool without endpoints, or its work has risen."""
        for key in self._passes.fed_by(pool):
            self._queue.add(key)
        self.needs_more(pool)

    async def _sweep(self) -> None:
        # Only a leader runs passes, so whoever begins to lead does not know yet which pools have bindings.
        await self._leadership.acquired()
        await asyncio.sleep(self._settings.sweep_s)
        while not self._leadership.is_held():
            await self._leadership.acquired()
            await asyncio.sleep(self._settings.sweep_s)
        try:
            await self._passes.waking.sweep()
        except cluster.ApiError as error:
            log.warning("annotations of pools that no binding reaches may be left: %s", error)

    @property
    def shared(self) -> Shared:
        """What planning uses as well."""
        return Shared(self._followed, self._signals, self._passes.scaler, self._passes.waking)

    def reads(self) -> dict[str, int]:
        """Pages, queries and gateways, for metrics."""
        return {**self._passes.statistics(), **self._signals.statistics()}

    # Policies

    async def _judge(self, key: api.ObjectKey) -> float | None:
        """Report whether a policy can be used."""
        await self._leadership.acquired()
        policy = self._followed.policy(key)
        if policy is None:
            return None
        compiled = _compiled(policy)
        error = compiled if isinstance(compiled, str) else ""
        due = status.of_policy(policy, error, self._followed.users(key), self._now())
        if policy.status == due:
            return None
        outcome = await write_status(self._client, policy, status.written(due))
        return SOON_S if outcome is Written.OUTDATED else None

    # Bindings

    async def _reconcile(self, key: api.ObjectKey) -> float | None:
        await self._leadership.acquired()
        binding = self._followed.binding(key)
        if binding is None or binding.metadata.deletion_timestamp is not None:
            self._memories.pop(key, None)
            self.figures.forget(key)
            await self._passes.leave(key)
            return None
        if not self._leadership.is_held():
            self._memories.clear()  # whoever leads meanwhile goes on from there
            return SOON_S
        if self._is_quiet(key):
            return self._settings.signals_s
        references = grants.finding(binding, self._followed.grants())
        plan = self._plan(binding, references)
        if isinstance(plan, Refusal):
            await self._passes.leave(key)
            self.figures.take(key, Report(plan.reason))
            due = status.refused(binding, plan, references, self._now())
            return await self._write(binding, due)
        return await self._scale(binding, plan, references)

    def _plan(self, binding: api.AutoscalingPolicyBinding, references: Finding | None) -> Plan | Refusal:
        """What to scale by what; or why nothing is scaled."""
        if references is not None and not references.holds:
            return Refusal(references.reason, references.message)
        key = api.ObjectKey(binding.metadata.namespace, binding.spec.policy_ref.name)
        policy = self._followed.policy(key)
        if policy is None:
            return Refusal(
                status.POLICY_NOT_FOUND, f"spec.policyRef.name: there is no AutoscalingPolicy {key}"
            )
        compiled = _compiled(policy)
        if isinstance(compiled, str):
            return Refusal(status.POLICY_INVALID, f"AutoscalingPolicy {key}: {compiled}")
        targets = self._followed.targets(binding)
        if isinstance(targets, Refusal):
            return targets
        for target in targets:
            rival = self._followed.rival(binding, target.workload)
            if rival is not None:
                older = "which scales it already" if rival.is_unstoppable else "which is older"
                told = f"{target.named.field}: {rival}, {older}, decides the replicas of {target.workload}"
                return Refusal(status.CONFLICT, f"{told}; delete one of them")
        return Plan(compiled, targets)

    async def _scale(
        self, binding: api.AutoscalingPolicyBinding, plan: Plan, references: Finding | None
    ) -> float | None:
        memory = self._memory(binding)
        done = await self._passes.run(binding, plan.policy, plan.targets, memory, self._now())
        if done.is_outdated:
            return SOON_S
        if not done.rejected:
            self._tell_direction(binding, memory, done.outcome)
        self.figures.take(binding.metadata.key, _report(done))
        due = status.decided(binding, done, references)
        again_s = await self._write(binding, due, memory)
        if again_s is not None:
            return again_s
        if done.rejected:
            return self._settings.period_s
        is_told = any(observing.is_signal(each.name) for each in plan.policy.metrics)
        if not is_told and not deciding.may_be_zero(binding, done.found):
            return self._settings.period_s
        decision = done.outcome.decision
        if decision.desired == decision.current and deciding.is_settled(binding, done.found):
            memory.quiet_until = done.observation.now + self._settings.period_s
        return self._settings.signals_s

    def _is_quiet(self, key: api.ObjectKey) -> bool:
        """Whether a pass would come to the same as the last one: there are no requests, and as few replicas
        as there may be. Most of many models are so most of the time."""
        memory = self._memories.get(key)
        # A clock that was set back makes no period longer.
        is_early = memory is not None and 0 < memory.quiet_until - self._now() <= self._settings.period_s
        return is_early and self._passes.is_idle(key)

    def _memory(self, binding: api.AutoscalingPolicyBinding) -> Memory:
        key, uid = binding.metadata.key, binding.metadata.uid
        memory = self._memories.get(key)
        if memory is None or memory.uid != uid:
            text = binding.status.history if binding.status is not None else ""
            memory = self._memories[key] = Memory(uid, _history(text))
        return memory

    def _tell_direction(
        self, binding: api.AutoscalingPolicyBinding, memory: Memory, outcome: Outcome
    ) -> None:
        decision = outcome.decision
        if decision.desired == decision.current:
            return
        goes_up = decision.desired > decision.current
        if memory.went_up is not goes_up:
            reason = "ScalingUp" if goes_up else "ScalingDown"
            self._events.record(binding, cluster.EventType.NORMAL, reason, decision.message)
        memory.went_up = goes_up

    async def _write(
        self,
        binding: api.AutoscalingPolicyBinding,
        due: AutoscalingPolicyBindingStatus,
        memory: Memory | None = None,
    ) -> float | None:
        """Write a status if it is time to; `due` has no history if there is a memory of it."""
        now, before = self._now(), binding.status
        if memory is not None:
            # A clock that was set back says nothing about when that was.
            if before is not None and 0 <= now - memory.written_at < _patience_s(before, due):
                return None
            due = msgspec.structs.replace(due, history=memory.history.to_json())
        if before == due:
            return None
        outcome = await write_status(self._client, binding, status.written(due))
        if outcome is Written.WRITTEN:
            if memory is not None:
                memory.written_at = now
            events.tell_turns(self._events, binding, due)
        return SOON_S if outcome is Written.OUTDATED else None

    def _now(self) -> float:
        return self._clock().timestamp()


def _patience_s(before: AutoscalingPolicyBindingStatus, due: AutoscalingPolicyBindingStatus) -> float:
    """How long after the last write the next one may wait."""
    if status.essence(before) != status.essence(due):
        return 0.0
    if status.words(before) != status.words(due):
        return WORDS_S
    return HISTORY_S if msgspec.structs.replace(before, history="") == due else VALUES_S


def _report(done: Pass) -> Report:
    decision = done.outcome.decision
    configurations = [each.target.configuration for each in done.found]
    reason = "" if status.is_ready(done) else status.NO_METRICS
    return Report(
        status.REJECTED if done.rejected else reason,
        decision,
        sum(each.min_replicas for each in configurations),
        sum(each.max_replicas for each in configurations),
        done.outcome.history.expected_start_s,
    )


def _prometheus(settings: AutoscalingSettings) -> Prometheus | None:
    if not settings.prometheus:
        return None
    return Prometheus(
        settings.prometheus,
        token_file=settings.prometheus_token_file,
        ca_file=settings.prometheus_ca_file,
    )


def _compiled(policy: api.AutoscalingPolicy) -> Policy | str:
    """The policy, or why it cannot be used."""
    try:
        return compile_policy(policy.spec)
    except ValueError as error:
        return f"spec: {error}"


def _history(text: str) -> History:
    """Of a status, which somebody may have changed."""
    try:
        return History.from_json(text) if text else History.empty()
    except ValueError as error:
        log.warning("a history cannot be read, and begins anew: %s", error)
        return History.empty()
