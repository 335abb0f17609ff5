"""Replicas come and go under load, and the ones that go finish what they have."""

from __future__ import annotations

import pytest
from fleet_of_models import backend

pytestmark = [pytest.mark.whole, pytest.mark.timeout(900)]


async def test_replicas_come_and_go(models, under_load):
    await models.put(backend())
    await models.settled()
    async with under_load() as load:
        for replicas in (3, 1, 2, 1):
            await models.put(backend(replicas=replicas))
            await models.settled()
            load.answered.clear()
            await load.goes_on(20)
            assert len(load.pods("m")) == replicas
            assert not load.failures, f"{replicas} replicas: {load.failures}"


async def test_a_backend_scales_to_zero_beside_another(models, under_load):
    await models.put(backend("a"), backend("b"))
    await models.settled()
    async with under_load() as load:
        for replicas in (0, 1):
            await models.put(backend("a", replicas=replicas), backend("b"))
            await models.settled()
            load.answered.clear()
            await load.goes_on(20)
            assert len(load.pods("m")) == 1 + replicas
            assert not load.failures, f"{replicas} replicas: {load.failures}"
