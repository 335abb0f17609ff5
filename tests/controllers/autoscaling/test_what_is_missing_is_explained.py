"""A metric that could not be measured is explained, so that a typing error is not taken for an idle model."""

from __future__ import annotations

import pytest
from world_of_scaling import World, controlling

from headgate.autoscaling import PodSample
from headgate.controllers.autoscaling.missing import reasons

READY, OTHER = PodSample("a", True, {}), PodSample("b", False, {})


@pytest.mark.parametrize(
    ("metric", "pods", "told"),
    [
        ("headgate:work_secs", [READY], "'headgate:work_secs'; did you mean headgate:work_seconds?"),
        ("headgate:zzz", [READY], "there are headgate:requests_running, headgate:requests_waiting"),
        ("headgate:kv_usage", [READY], "headgate:kv_usage: no engine reports it"),
        ("load", [READY, OTHER], "the page of the only ready Pod does not have load"),
        ("load", [READY, READY], "the pages of 2 ready Pods do not have load"),
        ("load", [OTHER], "no Pod is ready"),
        ("load", [], "there are no Pods"),
    ],
)
def test_each_has_a_reason(metric: str, pods: list[PodSample], told: str) -> None:
    """Also if gateways and Pods answer, but do not know the metric."""
    [reason] = reasons([metric], pods, [], [])
    assert told in reason


def test_what_could_not_be_read_is_the_reason() -> None:
    """Then nothing is said about the pages, and nothing about gateways that were not needed."""
    assert list(reasons(["load"], [READY], ["Pod a at port 1 is down"], ["no gateway"])) == [
        "Pod a at port 1 is down"
    ]
    assert list(reasons(["headgate:arrivals"], [READY], [], ["no gateway"])) == ["no gateway"]


async def test_the_status_tells_it(world: World) -> None:
    """In the condition about metrics: what is misspelled, and what no Pod has."""
    await world.workload(totals={"load": 1.0})
    await world.policy(**{"headgate:work_secs": 1, "laod": 1})
    await world.binding()
    async with controlling(world.client):
        told = await world.says("MetricsAvailable", "False", "MetricsMissing")
        assert "did you mean headgate:work_seconds?" in told
        assert "does not have laod" in told or "no Pod is ready" in told or "there are no Pods" in told
