"""Backends whose workers have several Pods, or prefill and decode apart, are changed under load."""

from __future__ import annotations

from typing import Any

import pytest
from fleet_of_models import backend
from model_story import GROUP, NIXL

pytestmark = [pytest.mark.whole, pytest.mark.timeout(900)]

KINDS: dict[str, dict[str, Any]] = {
    "several Pods": {"workers": [{"type": "server", "pods": 2, "config": GROUP}]},
    "prefill and decode": {
        "type": "vLLMDisaggregated",
        "workers": [{"type": "prefill", "config": NIXL}, {"type": "decode", "config": NIXL}],
    },
}
STEPS: dict[str, dict[str, Any]] = {
    "env": {"env": [{"name": "COLOR", "value": "blue"}]},
    "weights": {"modelURI": "pvc://others"},
    "more replicas": {"replicas": 2},
    "fewer replicas": {},
}


@pytest.mark.parametrize("kind", KINDS)
async def test_pods_are_replaced(models, under_load, kind):
    await models.put(backend(**KINDS[kind]))
    await models.settled()
    async with under_load() as load:
        for told, step in STEPS.items():
            load.answered.clear()
            await models.put(backend(**KINDS[kind], **step))
            await models.settled()
            await load.goes_on()
            assert load.pods("m"), f"nobody answered: {told}"
            load.has_no_failure(told)
