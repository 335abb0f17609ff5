"""The engines of a node end with it, and run again with its next start: nothing else changes."""

from __future__ import annotations

import asyncio

import httpx2
import pytest
from fleet_of_models import backend
from model_traffic import begin_streams
from up_pieces import below, wait

pytestmark = [pytest.mark.whole, pytest.mark.timeout(900)]


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_a_model_serves_again_with_the_next_start(models, site, under_load, eventually_answers, end):
    """And what was changed in between is so."""
    await models.put(backend())
    await models.settled()
    async with under_load() as load:
        await load.goes_on()
        with load.excuse():  # no engine runs
            programs = below(site.pieces.running["node"].pid)
            await asyncio.to_thread(getattr(site.pieces, end), "node")
            await asyncio.to_thread(wait, lambda: not any(map(_runs, programs)))
            await models.put(backend(replicas=2))
            site.pieces.start("node")
            await models.settled()
            await eventually_answers("m")
        load.answered.clear()
        await load.goes_on(20)
        assert len(load.pods("m")) == 2


async def test_a_node_that_stops_ends_the_streams_that_it_has(models, site, eventually_answers):
    """Those that are over within its --drain-timeout of 10 s; the two gateways have three each."""
    await models.put(backend())
    uid = (await models.settled())["metadata"]["uid"]
    await eventually_answers("m")
    async with httpx2.AsyncClient(trust_env=False, timeout=120) as http:
        streams = await begin_streams(http, site.urls, "m", tokens=100)
        await asyncio.to_thread(site.pieces.stop, "node")
        assert len(await asyncio.gather(*streams)) == len(streams)
    site.pieces.start("node")
    await models.delete("models", "m")
    await models.gone(uid)


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
