"""A Prometheus server that the ConfigMap names is asked for loads in place of the gateways."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from world_of_scaling import eventually

from headgate import api
from headgate.controllers.planning.collecting import Loads
from headgate.controllers.planning.loads import Demand
from headgate.observe.signals import PoolLoad
from headgate.planning.load import METRICS_MISSING, METRICS_STALE, PROMETHEUS_ERROR, Load, Missing
from headgate.planning.settings_map import PrometheusSettings

MAIN = "workload-variant-autoscaler-variantautoscaling-config"
URL = "https://prometheus:9090"
ZERO = {"model.llama": "{modelID: llama, enableScaleToZero: true, retentionPeriod: 10m}"}


@dataclass
class Played:
    """A server that tells what the test says."""

    told: Load | Missing = field(default_factory=lambda: Load(arrivals_per_s=0.0))
    over: float | Missing = 0.0
    asked: list[tuple[str, str, float]] = field(default_factory=list)
    urls: list[str] = field(default_factory=list)
    closed: int = 0

    def __call__(self, settings: PrometheusSettings) -> Played:
        self.urls.append(settings.url)
        return self

    async def collect(self, model: str, namespace: str) -> Load | Missing:
        return self.told

    async def requests_over(self, model: str, namespace: str, seconds: float) -> float | Missing:
        self.asked.append((model, namespace, seconds))
        return self.over

    def window_s(self, model: str, namespace: str) -> float:
        return 15.0

    async def close(self) -> None:
        self.closed += 1


async def test_replicas_follow_the_server_that_the_config_map_names(planning: Any) -> None:
    """Without a gateway, and without a restart when it is named, and when it is no longer."""
    await planning.configure()
    await planning.world.workload()
    await planning.variant()
    played = Played(Load(arrivals_per_s=3.0, prompt_tokens=100, output_tokens=200))
    async with planning.running(played):
        assert "no ModelServer" in await planning.says("MetricsAvailable", "False", "MetricsMissing")
        await planning.config(MAIN, {"PROMETHEUS_BASE_URL": URL})
        await planning.says("MetricsAvailable", "True", "MetricsFound")
        await planning.says("OptimizationReady", "True", "OptimizationSucceeded")
        desired = (await planning.get()).status.desired_optimized_alloc.num_replicas
        assert desired > 1
        assert (played.urls, played.closed) == ([URL], 0)
        await planning.config(MAIN, {})
        await planning.says("MetricsAvailable", "False", "MetricsMissing")
        assert (await planning.get()).status.desired_optimized_alloc.num_replicas == desired
    assert played.closed == 1


@pytest.mark.parametrize("reason", [METRICS_MISSING, METRICS_STALE, PROMETHEUS_ERROR])
async def test_a_server_that_does_not_tell_keeps_the_last_plan(planning: Any, reason: str) -> None:
    """The condition has the reason; the gauge and the status keep what was desired."""
    await planning.configure(PROMETHEUS_BASE_URL=URL, GLOBAL_OPT_INTERVAL="1s")
    await planning.world.workload()
    await planning.variant()
    played = Played(Load(arrivals_per_s=3.0, prompt_tokens=100, output_tokens=200))
    async with planning.running(played):
        await planning.says("OptimizationReady", "True", "OptimizationSucceeded")
        desired = (await planning.get()).status.desired_optimized_alloc.num_replicas
        good, played.told = played.told, Missing(reason, "why it is so")
        assert await planning.says("MetricsAvailable", "False", reason) == "why it is so"
        await planning.says("OptimizationReady", "False", "MetricsUnavailable")
        assert (await planning.get()).status.desired_optimized_alloc.num_replicas == desired
        assert list(planning.series("inferno_desired_replicas").values()) == [desired]
        played.told = good
        await planning.says("MetricsAvailable", "True", "MetricsFound")


async def test_a_model_goes_to_zero_by_its_retention(planning: Any) -> None:
    """Prometheus is asked for the requests within it; a request at a gateway wakes the model."""
    await planning.configure(PROMETHEUS_BASE_URL=URL, GLOBAL_OPT_INTERVAL="1s")
    await planning.config("model-scale-to-zero-config", ZERO)
    world = planning.world
    await world.workload()
    await planning.variant(annotations={"headgate.dev/actuate": "direct"})
    played = Played(over=3.0)
    async with planning.running(played):
        await planning.plans(1)
        await eventually(lambda: _is_asked(played))
        assert played.asked[-1] == ("llama", world.namespace, 600.0)
        played.over = Missing(PROMETHEUS_ERROR, "nobody knows")
        asked = len(played.asked)
        await eventually(lambda: _is_asked(played, asked + 2))
        await planning.plans(1)
        played.over = 0.0
        await planning.plans(0)
        await world.gets(0)
        played.told = Missing(METRICS_MISSING, "no engine, no metrics")
        await world.server(arrivals=0.1, idle_s=None, waiting_for_endpoints=1)
        await planning.plans(1)
        await world.gets(1)


async def test_a_load_that_rises_is_planned_for_at_once(planning: Any) -> None:
    """Long before the next pass."""
    await planning.configure(PROMETHEUS_BASE_URL=URL)
    await planning.world.workload()
    await planning.variant()
    played = Played(Load(arrivals_per_s=0.05, prompt_tokens=100, output_tokens=200))
    async with planning.running(played):
        await planning.plans(1)
        played.told = Load(arrivals_per_s=30.0, prompt_tokens=100, output_tokens=200)

        async def is_raised() -> bool:
            status = (await planning.get()).status
            return status.desired_optimized_alloc.num_replicas > 10

        await eventually(is_raised, 40.0)


class Silent:
    """Gateways, of which one is at the pool."""

    def __init__(self, load: PoolLoad) -> None:
        self.load = load

    def of(self, pool: api.ObjectRef) -> PoolLoad:
        return self.load


@pytest.mark.parametrize(
    ("idle_s", "waiting", "replicas", "over", "is_over"),
    [
        (None, 0, 1, 0.0, False),
        (300.0, 0, 1, 0.0, False),
        (700.0, 0, 1, 0.0, True),
        (700.0, 0, 1, 2.0, False),
        (700.0, 0, 0, Missing(METRICS_MISSING, ""), True),
        (700.0, 0, 1, Missing(METRICS_MISSING, ""), False),
        (700.0, 1, 0, 0.0, False),
    ],
)
async def test_neither_gateways_nor_prometheus_know_of_a_request(
    idle_s: float | None, waiting: int, replicas: int, over: Any, is_over: bool
) -> None:
    """Within the retention; without replicas, Prometheus has nobody to ask."""
    pool = api.ObjectRef("ModelServer", "ns", "web")
    known = PoolLoad(is_known=True, idle_s=idle_s, waiting_for_endpoints=waiting)
    loads = Loads(Silent(known), Played(over=over))  # type: ignore[arg-type]
    await loads.use(PrometheusSettings(url=URL))
    demand = Demand("llama", "ns", {pool: 1.0}, replicas)
    assert await loads.is_over(demand, 600.0) is is_over


async def test_without_replicas_what_waits_is_the_load() -> None:
    """No engine is there that Prometheus could know of, so they wake the model while it is down, also while
    the first one starts. If none waits, an error is none the less an error."""
    pool = api.ObjectRef("ModelServer", "ns", "web")
    known = PoolLoad(is_known=True, waiting_for_endpoints=4)
    played = Played(Missing(METRICS_STALE, "old"))
    loads = Loads(Silent(known), played)  # type: ignore[arg-type]
    await loads.use(PrometheusSettings(url=URL))
    asleep, waking, awake = (Demand("llama", "ns", {pool: 1.0}, replicas) for replicas in (0, 1, 2))
    [load] = (await loads.collect([asleep])).values()
    assert isinstance(load, Load)
    assert (load.waiting, load.arrivals_per_s > 0) == (4, True)
    assert list((await loads.collect([waking])).values()) == [load]
    assert list((await loads.collect([awake])).values()) == [played.told]
    played.told = Missing(PROMETHEUS_ERROR, "down")
    [load] = (await loads.collect([asleep])).values()
    assert isinstance(load, Load)
    assert load.waiting == 4
    assert list((await loads.collect([awake])).values()) == [played.told]
    quiet = Loads(Silent(PoolLoad(is_known=True)), played)  # type: ignore[arg-type]
    await quiet.use(PrometheusSettings(url=URL))
    assert list((await quiet.collect([asleep])).values()) == [played.told]


async def _is_asked(played: Played, times: int = 1) -> bool:
    return len(played.asked) >= times
