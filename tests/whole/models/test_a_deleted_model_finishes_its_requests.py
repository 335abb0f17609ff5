"""A deleted Model takes no new requests, and answers those that it has."""

from __future__ import annotations

import asyncio

import httpx2
import pytest
from fleet_of_models import backend
from model_traffic import ask

pytestmark = [pytest.mark.whole, pytest.mark.timeout(900)]


async def test_streams_of_a_deleted_model_end_as_they_would(models, site):
    await models.put(backend())
    uid = (await models.settled())["metadata"]["uid"]
    async with httpx2.AsyncClient(trust_env=False, timeout=120) as http:
        streams = [
            asyncio.create_task(ask(http, url, "m", streamed=True, tokens=400))
            for url in site.urls
            for _ in range(3)
        ]
        await asyncio.sleep(1)
        await models.delete("models", "m")
        assert len(await asyncio.gather(*streams)) == len(streams)
    await models.gone(uid)
