"""A deleted Model takes no new requests, and answers those that it has."""

from __future__ import annotations

import asyncio

import httpx2
import pytest
from fleet_of_models import backend
from model_traffic import begin_streams

pytestmark = [pytest.mark.whole, pytest.mark.timeout(900)]


async def test_streams_of_a_deleted_model_end_as_they_would(models, site, eventually_answers):
    await models.put(backend())
    uid = (await models.settled())["metadata"]["uid"]
    await eventually_answers("m")
    async with httpx2.AsyncClient(trust_env=False, timeout=120) as http:
        streams = await begin_streams(http, site.urls, "m", tokens=350)
        await models.delete("models", "m")
        assert len(await asyncio.gather(*streams)) == len(streams)
    await models.gone(uid)
