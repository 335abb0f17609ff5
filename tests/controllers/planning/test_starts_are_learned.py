"""How long replicas of a variant take to start counts in what is planned for."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec

from headgate import api
from headgate.controllers.planning.collecting import Loads
from headgate.controllers.planning.loads import Demand
from headgate.controllers.planning.starting import StartTimes
from headgate.kubeschema import timestamps
from headgate.observe.signals import PoolLoad

WORKLOAD: Any = SimpleNamespace(spec=SimpleNamespace(replicas=2))
POOL = api.ObjectRef("ModelServer", "ns", "web")


def scaled(uid: str = "1") -> Any:
    return SimpleNamespace(metadata=api.ObjectMeta(name="web", namespace="ns", uid=uid))


def pod(name: str, created: float, ready: bool) -> api.Pod:
    metadata = api.ObjectMeta(name=name, creation_timestamp=timestamps.seconds(created))
    condition = api.Condition(type="Ready", status="True" if ready else "False")
    return api.Pod(metadata=metadata, status=api.PodStatus(conditions=[condition]))


def test_a_start_is_from_the_creation_of_a_pod_to_its_readiness() -> None:
    """Of another object with the same name, nothing is known."""
    times = StartTimes()
    old = pod("a", 0.0, True)
    assert times.learn(scaled(), WORKLOAD, [old], 1000.0).expected_s is None
    assert times.learn(scaled(), WORKLOAD, [old, pod("b", 1010.0, False)], 1015.0).coming == ("b",)
    assert times.learn(scaled(), WORKLOAD, [old, pod("b", 1010.0, True)], 1060.0).expected_s == 50.0
    assert times.learn(scaled(), WORKLOAD, [old], 1070.0).expected_s == 50.0
    assert times.learn(scaled("2"), WORKLOAD, [old], 1080.0).expected_s is None
    times.keep_only(())
    assert times.learn(scaled("2"), WORKLOAD, [old], 1090.0).expected_s is None


async def test_a_trend_counts_for_as_long_as_a_start_takes(monkeypatch: Any) -> None:
    """Arrivals that grow steadily are planned for as they will be once a new replica is ready."""
    now, planned = 0.0, {}
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    for start_s in (0.0, 120.0):
        known = PoolLoad(is_known=True)
        signals = SimpleNamespace(of=lambda _: known)  # noqa: B023 - the one of now
        loads = Loads(signals)  # type: ignore[arg-type]
        demand = Demand("llama", "ns", {POOL: 1.0}, 1, start_s)
        for second in range(0, 1800, 5):
            now += 5.0
            rate = 5.0 + second / 60
            known = msgspec.structs.replace(known, metrics={"headgate:arrivals": rate})
            [found] = (await loads.collect([demand])).values()
        planned[start_s] = found.arrivals_per_s / rate
    assert 0.9 < planned[0.0] < 1.02
    assert planned[120.0] > planned[0.0] + 0.03
