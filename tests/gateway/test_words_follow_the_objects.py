"""Common parts of log lines are formatted once, for as long as the objects stay the same."""

import json

import pytest


@pytest.fixture
async def gateway(start_gateway, endpoint):
    return await start_gateway(endpoint, settings={"logging_access_log": "json"}, model="old")


async def test_a_request_of_before_a_change_leaves_nothing_behind(gateway, endpoint):
    """It ends after the pool has another name for the model: the next is told by the new one."""
    client = await gateway.connect()
    client.post()
    call = await endpoint.call()
    gateway.serve([endpoint], model="new")
    call.answer()
    await client.response()
    client.post()
    call = await endpoint.call()
    assert call.json["model"] == "new"
    call.answer()
    await client.response()
    told = [json.loads(line)["upstream_model"] for line in gateway.log_lines()]
    assert told == ["old", "new"]
