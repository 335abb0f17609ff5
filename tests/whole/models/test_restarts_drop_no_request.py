"""Processes of Headgate restart under load, while the Model changes."""

from __future__ import annotations

import asyncio

import pytest
from fleet_of_models import backend

pytestmark = [pytest.mark.whole, pytest.mark.timeout(900)]


def changed(color: str, **fields: object) -> dict[str, object]:
    return backend(env=[{"name": "COLOR", "value": color}], **fields)


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_the_controller_may_restart_in_a_change(models, site, under_load, end):
    await models.put(backend())
    await models.settled()
    async with under_load() as load:
        await models.put(changed("blue"))
        await asyncio.sleep(0.5)
        getattr(site.pieces, end)("controller")
        await load.goes_on()
        site.pieces.start("controller")
        await models.settled()
        load.has_no_failure()
        getattr(site.pieces, end)("controller")
        await models.put(backend("renamed"))
        site.pieces.start("controller")
        await models.settled()


async def test_a_gateway_may_restart_in_a_change(models, site, under_load):
    """Its load balancer stops to send it requests as soon as it is not ready."""
    await models.put(backend())
    await models.settled()
    async with under_load() as load:
        for name, (url, _) in site.gateways.items():
            await models.put(changed(name))
            load.gateways.remove(url)
            await asyncio.to_thread(site.pieces.stop, name)
            site.pieces.start(name)
            await asyncio.to_thread(site.until_ready, name)
            load.gateways.append(url)
            await models.settled()
            await load.goes_on()


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_the_api_server_may_restart_in_a_change(models, site, under_load, end):
    await models.put(backend())
    await models.settled()
    async with under_load() as load:
        await models.put(changed("green"))
        getattr(site.pieces, end)("apiserver")
        await load.goes_on()
        site.pieces.start("apiserver")
        await models.settled()
