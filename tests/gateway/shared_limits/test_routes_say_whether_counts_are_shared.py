"""The condition LimitsShared of a ModelRoute tells whether a gateway cannot reach its Redis."""

import msgspec
import pytest

from headgate import api, apiserver, cluster
from headgate.api.timestamps import seconds
from headgate.gateway.limiting.conditions import BELIEVED_S, LimitConditions, due

ADDRESS = "redis:6379"
NOW = 1_800_000_000.0
ME, OTHER = "gateway a (process 1)", "gateway b (process 1)"


def route(said=None, **limit):
    spec = {
        "modelName": "m",
        "rules": [{"targetModels": [{"modelServerName": "pool"}]}],
        "rateLimit": {"inputTokensPerUnit": 1000, "global": {"redis": {"address": ADDRESS}}, **limit},
    }
    status = {"conditions": [msgspec.to_builtins(said)]} if said is not None else {}
    metadata = {"name": "shared", "namespace": "default"}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, api.ModelRoute)


def said_by(who, trouble, at=NOW):
    return due(route(), ADDRESS, trouble, who, at)


@pytest.mark.parametrize(
    ("said", "trouble", "status"),
    [
        (None, None, None),
        (None, "", "True"),
        (None, "refused", "False"),
        (said_by(OTHER, ""), "", None),
        (said_by(OTHER, ""), "refused", "False"),
        (said_by(ME, "refused"), "no answer", None),
        (said_by(ME, "refused"), "", "True"),
        (said_by(OTHER, "refused"), "refused", None),
        (said_by(OTHER, "refused"), "", None),
        (said_by(OTHER, "refused", NOW - BELIEVED_S - 1), "", "True"),
        (said_by(OTHER, "refused"), None, None),
    ],
)
def test_who_says_what(said, trouble, status):
    """Who cannot reach Redis says so; who can takes back its own word, and what others said long ago."""
    found = due(route(said), ADDRESS, trouble, ME, NOW)
    assert (found.status if found is not None else None) == status
    if found is not None:
        assert found.last_transition_time == seconds(NOW)
        assert trouble in found.message
        assert ADDRESS in found.message


@pytest.fixture
async def client(tmp_path):
    """Of an API server."""
    async with (
        apiserver.running(apiserver.Config(tmp_path, port=0)) as server,
        cluster.Client.from_kubeconfig(server.kubeconfig) as client,
    ):
        yield client


async def conditions(client):
    status = (await client.get(api.ModelRoute, "shared", "default")).status
    return {each.type: each.status for each in status.conditions} if status is not None else {}


async def test_the_condition_follows_what_a_gateway_meets(client):
    """Beside the conditions of others, and only as long as the route wants to be counted with others."""
    trouble = {}
    writer = LimitConditions(client, lambda address, model: trouble.get(address), ME, lambda: NOW)

    async def look() -> dict[str, str]:
        found = await client.get(api.ModelRoute, "shared", "default")
        writer.note(cluster.Change(cluster.ChangeKind.MODIFIED, None, found))
        await writer.look()
        return await conditions(client)

    created = await client.create(route())
    assert await look() == {}
    ready = {"type": "Ready", "status": "True", "reason": "R", "message": "m"}
    ready["lastTransitionTime"] = seconds(NOW)
    await client.patch_status(api.ModelRoute, "shared", "default", {"conditions": [ready]})
    trouble[ADDRESS] = "it refuses"
    assert await look() == {"Ready": "True", "LimitsShared": "False"}
    trouble[ADDRESS] = ""
    assert await look() == {"Ready": "True", "LimitsShared": "True"}
    limit = {"inputTokensPerUnit": 1000, "global": None}
    await client.patch(api.ModelRoute, "shared", "default", {"spec": {"rateLimit": limit}})
    assert await look() == {"Ready": "True"}
    await client.delete(api.ModelRoute, "shared", "default", uid=created.metadata.uid)
    trouble[ADDRESS] = "it refuses"
    writer.note(cluster.Change(cluster.ChangeKind.ADDED, None, created))
    await writer.look()
    assert await client.list(api.ModelRoute, "default") == [], "what was deleted is not made again"


async def test_a_word_that_another_took_back_is_said_again(client):
    """Of two gateways of which one reaches Redis, the other's word stands."""
    away = LimitConditions(client, lambda *_: "it refuses", ME, lambda: NOW)
    there = LimitConditions(client, lambda *_: "", OTHER, lambda: NOW + BELIEVED_S + 1)
    await client.create(route())
    for writer, status in ((there, "True"), (away, "False"), (there, "True"), (away, "False")):
        found = await client.get(api.ModelRoute, "shared", "default")
        writer.note(cluster.Change(cluster.ChangeKind.MODIFIED, None, found))
        await writer.look()
        assert await conditions(client) == {"LimitsShared": status}
