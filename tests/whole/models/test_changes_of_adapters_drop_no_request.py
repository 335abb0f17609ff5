"""Adapters come, go and change their sources, by a rollout or while engines run."""

from __future__ import annotations

from typing import Any

import pytest
from fleet_of_models import backend

pytestmark = [pytest.mark.whole, pytest.mark.timeout(900)]

AT_RUN_TIME = [{"name": "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "value": "1"}]


def adapters(**sources: str) -> list[dict[str, str]]:
    return [{"name": name, "artifactURL": f"pvc://{claim}"} for name, claim in sources.items()]


@pytest.mark.parametrize("fields", [{}, {"env": AT_RUN_TIME}, {"type": "SGLang"}])
async def test_adapters_come_and_go(models, under_load, eventually_answers, fields: dict[str, Any]):
    """Requests for an adapter begin once it is there, and end before it goes."""
    await models.put(backend(**fields, loraAdapters=adapters(first="adapter")))
    await models.settled()
    await eventually_answers("first")
    async with under_load("m", "first") as load:
        await models.put(backend(**fields, loraAdapters=adapters(first="adapter", second="adapter-2")))
        await models.settled()
        await eventually_answers("second")
        load.names.append("second")
        await load.goes_on(20)
        assert load.pods("second")
        load.has_no_failure()
        load.names.remove("first")
        await load.goes_on(20)
        await models.put(backend(**fields, loraAdapters=adapters(second="adapter-2")))
        await models.settled()
        await load.goes_on(20)
        load.has_no_failure()
        load.names.remove("second")
        await load.goes_on(20)
        await models.put(backend(**fields))
        await models.settled()
        await load.goes_on(20)
