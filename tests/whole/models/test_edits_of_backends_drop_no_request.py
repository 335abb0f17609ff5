"""Backends may come, go, change their names, their engines and the size of their workers."""

from __future__ import annotations

from typing import Any

import pytest
from fleet_of_models import backend
from model_story import GROUP, NIXL

pytestmark = [pytest.mark.whole, pytest.mark.timeout(900)]

APART = {
    "type": "vLLMDisaggregated",
    "workers": [{"type": "prefill", "config": NIXL}, {"type": "decode", "config": NIXL}],
}
LARGE = {"workers": [{"type": "server", "pods": 2, "config": GROUP}]}


async def run(models: Any, under_load: Any, steps: dict[str, list[dict[str, Any]]]) -> None:
    """The first step makes the Model, each other one changes it."""
    first, *others = steps.items()
    await models.put(*first[1])
    await models.settled()
    async with under_load() as load:
        await load.goes_on()
        for told, backends in others:
            load.answered.clear()
            await models.put(*backends)
            await models.settled()
            await load.goes_on()
            assert load.pods("m"), f"nobody answered: {told}"
            load.has_no_failure(told)


async def test_backends_are_renamed_added_and_removed(models, under_load):
    await run(
        models,
        under_load,
        {
            "one": [backend("a")],
            "renamed": [backend("b")],
            "another one": [backend("b"), backend("c")],
            "the first one goes": [backend("c")],
            "all weight on a new one": [backend("c", routeWeight=0), backend("d")],
            "the weight is given back": [backend("c", routeWeight=50), backend("d", routeWeight=0)],
            "both are renamed": [backend("e"), backend("f")],
        },
    )


async def test_backends_change_their_engine(models, under_load):
    await run(
        models,
        under_load,
        {
            "vLLM": [backend()],
            "SGLang": [backend(type="SGLang")],
            "prefill and decode apart": [backend(**APART)],
            "vLLM again": [backend()],
        },
    )


async def test_policies_come_change_and_go(models, under_load):
    def policy(target: int) -> dict[str, Any]:
        return {"metrics": [{"metricName": "kthena:num_requests_waiting", "targetValue": target}]}

    await run(
        models,
        under_load,
        {
            "no policy": [backend()],
            "a policy": [backend(maxReplicas=2, autoscalingPolicy=policy(10))],
            "another target": [backend(maxReplicas=2, autoscalingPolicy=policy(20))],
            "no policy again": [backend()],
        },
    )


async def test_workers_of_one_pod_become_workers_of_two_and_back(models, under_load):
    await run(
        models,
        under_load,
        {
            "one Pod": [backend()],
            "two Pods": [backend(**LARGE)],
            "one Pod again": [backend()],
        },
    )
