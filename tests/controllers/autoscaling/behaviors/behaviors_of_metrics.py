"""What is measured of Pods: rates of counters, quantiles of histograms, and what happens without a value.

The same behaviors are tested on the embedded API server and on a real control plane. Numbers such as A29 are
those of the reference cases of the autoscaler.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from registered import Behavior, into
from world_of_scaling import AT_ONCE, World, controlling, eventually

from headgate import api, cluster
from headgate.controllers.autoscaling import AutoscalingController

BEHAVIORS: list[Behavior] = []
behavior = into(BEHAVIORS)

OVER_S = 2.0
"""What counters and histograms are about in these tests."""


async def _pages(controller: AutoscalingController, more: int) -> None:
    """So many more pages were read."""
    wanted = controller.reads()["pages"] + more

    async def are_read() -> bool:
        return controller.reads()["pages"] >= wanted

    await eventually(are_read)


async def _value(world: World, metric: str, value: str) -> None:
    """The status shows this value of a metric."""

    async def is_so() -> bool:
        said = (await world.status()).get("metrics", [])
        return any(each["metricName"] == metric and each.get("value", "") == value for each in said)

    await eventually(is_so)


def _histogram(name: str, *counts: int) -> str:
    """With the bounds of the reference cases."""
    bounds = zip(("0.5", "0.75", "+Inf"), counts, strict=True)
    lines = [f'{name}_bucket{{le="{bound}"}} {count}' for bound, count in bounds]
    return "\n".join([f"# TYPE {name} histogram", *lines])


# --- over time ------------------------------------------------------------------------------------------


@behavior
async def counters_count_as_their_present_rate(world: World) -> None:
    """A29: a reading is compared with the newest one that is old enough, so that an old rate is forgotten
    after the window."""
    pods = await world.workload(replicas=2, rate=8.0)
    await world.policy(jobs_total=1)
    await world.binding(most=6)
    async with controlling(world.client, over_s=OVER_S):
        await world.has(6)
        pods.rate = 1.5
        await world.has(2)


@behavior
async def readings_from_long_ago_are_not_compared_with(world: World) -> None:
    """A29: what happened while nobody read the Pods is no rate, and without one nothing goes."""
    pods = await world.workload(replicas=2, rate=1.5)
    await world.policy(jobs_total=1)
    await world.binding(most=50)
    async with controlling(world.client, over_s=OVER_S) as controller:
        await world.says("Ready", "True", "Scaling")
        await world.has(2)
        pods.is_silent = True
        await world.says("MetricsAvailable", "False", "MetricsMissing")
        pods.rate = 2000.0
        await asyncio.sleep(6 * OVER_S)
        pods.advance()
        pods.rate = 1.5
        pods.is_silent = False
        await world.says("MetricsAvailable", "True", "Measured")
        await _pages(controller, 6)
        assert await world.replicas() == 2


@behavior
async def a_histogram_counts_as_a_quantile(world: World) -> None:
    """A30: of what was counted lately. Nothing counted is 0, and counts that fall are no value."""
    pods = await world.workload(texts=["\n".join(_histogram(name, 0, 0, 0) for name in ("a", "b", "c"))])
    pods.texts = [f"{_histogram('a', 2, 4, 5)}\n{_histogram('b', 0, 0, 0)}\n{_histogram('c', 3, 3, 3)}"]
    await world.policy(**{"a:p50": 1, "b:p99.9": 0.5, "c": 1})
    await world.binding()
    async with controlling(world.client) as controller:
        await _pages(controller, 2)
        pods.texts = [f"{_histogram('a', 2, 9, 10)}\n{_histogram('b', 4, 8, 10)}\n{_histogram('c', 3, 3, 3)}"]
        await _value(world, "a:p50", "0.65")
        await _value(world, "b:p99.9", "1.5")
        await _value(world, "c", "0")
        await world.has(3)
        pods.texts = [f"{_histogram('a', 2, 9, 10)}\n{_histogram('b', 1, 1, 1)}\n{_histogram('c', 3, 3, 3)}"]
        assert "b:p99.9" in await world.says("MetricsAvailable", "False", "MetricsMissing")
        pods.texts = [f"{_histogram('a', 2, 9, 10)}\n{_histogram('b', 5, 4, 6)}\n{_histogram('c', 3, 3, 3)}"]
        await _pages(controller, 6)
        assert await world.condition("MetricsAvailable") == ("False", "MetricsMissing")
        assert await world.replicas() == 3


# --- what cannot be measured ----------------------------------------------------------------------------


@behavior
async def pods_that_say_nothing_never_shrink_it(world: World) -> None:
    """A metric that is lost is no idleness; the status says which one it is."""
    pods = await world.workload(replicas=4, totals={"load": 4.0})
    await world.policy(load=1)
    await world.binding()
    async with controlling(world.client):
        await world.says("Ready", "True", "Scaling")
        pods.is_silent = True
        told = await world.says("MetricsAvailable", "False", "MetricsMissing")
        assert "load" in told
        await world.says("Ready", "False", "MetricsMissing")
        await world.has(4)
        pods.is_silent = False
        pods.totals["load"] = 2.0
        await world.has(2)
        await world.says("Ready", "True", "Scaling")


@behavior
async def restarts_of_containers_do_not_matter(world: World) -> None:
    """A Pod whose container restarted once counts as any other."""
    await world.workload(totals={"load": 3.0})
    await world.policy(load=1)
    await world.binding()
    async with controlling(world.client):
        await world.has(3)
        [pod, *_] = await world.client.list(api.Pod, world.namespace, label_selector="app=web")
        state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        container = {
            "name": "engine",
            "image": "engine:1",
            "imageID": "",
            "ready": True,
            "restartCount": 3,
            "state": state,
        }
        await world.client.patch_status(
            api.Pod, pod.metadata.name, world.namespace, {"containerStatuses": [container]}
        )
        world.pods[world.namespace, "Deployment", "web"].totals["load"] = 5.0
        await world.has(5)


# --- what no policy can say -----------------------------------------------------------------------------


@behavior
async def an_unknown_choice_of_two_rates_is_rejected(world: World) -> None:
    """A18: so that no workload is without the bound that somebody meant to set."""
    rate: dict[str, Any] = {**AT_ONCE, "instances": 1, "percent": 40, "selectPolicy": "Neither"}
    with pytest.raises(cluster.Invalid, match="selectPolicy"):
        await world.policy(load=1, behavior={"scaleDown": rate})
