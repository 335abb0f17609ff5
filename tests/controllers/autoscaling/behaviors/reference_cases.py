"""Reference cases of the autoscaler, each as one number of replicas that follows from Pods and a policy.

Pods have pages with their values, the controller reads them, and what it writes through the scale subresource
is compared. What was recommended, or held, before is the history in the status of the binding, as an earlier
controller left it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from world_of_scaling import ANY_SPEED, AT_ONCE, World, controlling, eventually

from headgate import api
from headgate.autoscaling import History, MetricTarget, Panic, Policy
from headgate.autoscaling.correction import with_panic

A_MOMENT_AGO_S = 20.0
"""Within all windows and periods of the cases."""


@dataclass(frozen=True)
class Case:
    """Replicas and values of Pods, and the replicas that follow."""

    current: int
    expected: int
    values: Mapping[str, Any] = field(default_factory=dict)
    targets: Mapping[str, Any] = field(default_factory=lambda: {"load": 1})
    least: int = 1
    most: int = 1000
    ready: int | None = None
    behavior: Mapping[str, Any] = field(default_factory=lambda: ANY_SPEED)
    tolerance: int = 0
    is_first_step: bool = False
    """Whether more steps follow, as the load stays."""
    earlier: Callable[[float], History] | None = None
    """What passes until this time, in seconds since the epoch, left behind."""
    rule: str | None = None
    """What bounded the recommendation."""


def limited(instances: int, percent: int, select: str, window: str, period: str = "30m") -> dict[str, Any]:
    """In half an hour: in one step, as far as tests live."""
    rate = {"instances": instances, "percent": percent, "period": period, "selectPolicy": select}
    return {**rate, "stabilizationWindow": window}


def down(instances: int, percent: int, select: str = "Or", window: str = "0s") -> dict[str, Any]:
    """Scaling down by so many."""
    scale_down = limited(instances, percent, select, window)
    return {"scaleUp": {"stablePolicy": AT_ONCE}, "scaleDown": scale_down}


def up(instances: int, percent: int, select: str = "Or", window: str = "0s") -> dict[str, Any]:
    return {"scaleUp": {"stablePolicy": limited(instances, percent, select, window)}, "scaleDown": AT_ONCE}


def panic(percent: int, hold: str = "30m") -> dict[str, Any]:
    """In a surge, `percent` at a time in place of one replica."""
    policy = {"percent": percent, "period": "30m", "panicThresholdPercent": 200, "panicModeHold": hold}
    return {**up(1, 0), "scaleUp": {**up(1, 0)["scaleUp"], "panicPolicy": policy}}


def recommended(replicas: int) -> Callable[[float], History]:
    return lambda now: History.empty().with_recommendation(now - A_MOMENT_AGO_S, replicas)


def held(replicas: int) -> Callable[[float], History]:
    return lambda now: History.empty().with_replicas(now - A_MOMENT_AGO_S, replicas)


def panicked(now: float) -> History:
    """In panic since a moment."""
    policy = Policy((MetricTarget("load", 1.0),), panic=Panic(hold_s=1800.0))
    return with_panic(policy, History.empty(), now - A_MOMENT_AGO_S, 10, 30)


CASES = {
    "A1 below the minimum": Case(4, 5, {"load": 1.0}, least=5, most=10, is_first_step=True),
    "A2 above the maximum": Case(12, 10, {"load": 1.0}, least=5, most=10),
    "A3 no metric": Case(4, 4),
    "A4 the largest metric": Case(
        3,
        300,
        {"a": [6.0, 6.0, 6.0], "b": [500.0, 500.0, 500.0], "c": [20.0, 20.0, 20.0]},
        {"a": 3, "b": 5, "c": 4},
        is_first_step=True,
    ),
    "A10 unready Pods would turn the direction": Case(58, 58, {"load": [3.9] * 8}, ready=8),
    "A11 missing Pods when it goes down": Case(10, 6, {"load": [0.5] * 8}, is_first_step=True),
    "A12 missing Pods when it goes up": Case(10, 24, {"load": [2.9] * 8}, is_first_step=True),
    "A16 down by the larger of two": Case(10, 6, {"load": 0.5}, behavior=down(1, 40), rule="Rate"),
    "A17 down by the smaller of two": Case(10, 9, {"load": 0.5}, behavior=down(1, 40, "And"), rule="Rate"),
    "A19 a higher recommendation inside the window": Case(
        10,
        9,
        {"load": 0.5},
        behavior=down(2, 20, window="30m"),
        earlier=recommended(9),
        rule="StabilizationWindow",
    ),
    "A21 up by the larger of two": Case(5, 10, {"load": 4.0}, behavior=up(3, 100), rule="Rate"),
    "A21 up by the smaller of two": Case(5, 8, {"load": 4.0}, behavior=up(3, 100, "And"), rule="Rate"),
    "A22 a lower recommendation above the rate": Case(
        5, 10, {"load": 4.0}, behavior=up(3, 100, window="30m"), earlier=recommended(12), rule="Rate"
    ),
    "A22 a lower recommendation below the rate": Case(
        5,
        12,
        {"load": 4.0},
        behavior=up(20, 100, window="30m"),
        earlier=recommended(12),
        rule="StabilizationWindow",
    ),
    "A23 replicas that came within the period": Case(
        10, 10, {"load": 5.0}, behavior=up(2, 50), earlier=held(6), rule="Rate"
    ),
    "A25 panic has a rate of its own": Case(
        10, 12, {"load": 3.0}, behavior=panic(100), earlier=held(6), rule="Panic"
    ),
    "A27 nothing goes in panic": Case(
        10, 10, {"load": 0.3}, behavior=panic(100), earlier=panicked, rule="Panic"
    ),
    "A38 one ready Pod and one that is not": Case(2, 2, {"load": [1.4]}, ready=1),
    "7.3 a change within the tolerance": Case(10, 10, {"load": 1.09}, tolerance=10, rule="Tolerance"),
    "7.3 a change beyond the tolerance": Case(10, 12, {"load": 1.2}, tolerance=10, is_first_step=True),
    "7.4 a surge in panic": Case(10, 20, {"load": 3.0}, behavior=panic(100), rule="Panic"),
    "7.4 a hold of nothing is no panic": Case(
        10, 11, {"load": 3.0}, behavior=panic(100, hold="0s"), rule="Rate"
    ),
    "7.4 a rate of nothing keeps all": Case(10, 10, {"load": 0.5}, behavior=down(0, 0), rule="Rate"),
    "7.4 a percentage of one replica is none": Case(1, 1, {"load": 5.0}, behavior=up(0, 50), rule="Rate"),
    "7.4 a period of nothing bounds nothing": Case(
        10,
        5,
        {"load": 0.5},
        behavior={"scaleDown": limited(1, 10, "And", "0s", period="0s")},
        is_first_step=True,
    ),
}


async def check(world: World, case: Case) -> None:
    """A case holds."""
    await world.workload(replicas=case.current, values=dict(case.values), ready=case.ready)

    async def are_there() -> bool:
        pods = world.pods[world.namespace, "Deployment", "web"]
        known = await world.client.list(api.Pod, world.namespace, label_selector="app=web")
        ready = case.current if case.ready is None else case.ready
        return len(pods.order) == case.current and sum(pod.ready for pod in known) == ready

    await eventually(are_there)
    await world.policy(behavior=case.behavior, tolerancePercent=case.tolerance, **case.targets)
    await world.binding(least=case.least, most=case.most)
    if case.earlier is not None:
        history = case.earlier(time.time()).to_json()
        await world.client.patch_status(
            api.AutoscalingPolicyBinding, "b", world.namespace, {"history": history}
        )
    async with controlling(world.client):
        if case.is_first_step:
            await world.gets(case.expected)
        else:
            said = await world.decides(case.expected)
            await world.has(case.expected)
            if case.rule is not None:
                said = await world.status()
                assert said["rule"] == case.rule, said["message"]
