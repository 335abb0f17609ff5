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
            load.has_no_failure(f"{replicas} replicas")
