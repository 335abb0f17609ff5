"""Each namespace has the ServiceAccount `default`, as clients of a cluster expect."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest

from headgate.apiserver import Config
from headgate.apiserver.parts import Parts
from headgate.apiserver.storage import Key

NAMESPACES = "/api/v1/namespaces"
ACCOUNTS = f"{NAMESPACES}/ns/serviceaccounts"
SPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}


async def accounts(client: httpx2.AsyncClient) -> list[str]:
    return [item["metadata"]["name"] for item in (await client.get(ACCOUNTS)).json()["items"]]


@pytest.mark.parametrize("how", ["create", "apply"])
async def test_a_new_namespace_has_it_at_once(client: httpx2.AsyncClient, how: str) -> None:
    """Whichever way it was made, unless that was a dry run."""

    async def make(**params: str) -> int:
        if how == "create":
            return (await client.post(NAMESPACES, json=SPACE, params=params)).status_code
        headers = {"content-type": "application/apply-patch+yaml"}
        params |= {"fieldManager": "m"}
        answer = await client.patch(f"{NAMESPACES}/ns", json=SPACE, params=params, headers=headers)
        return answer.status_code

    assert await make(dryRun="All") == 201
    assert await accounts(client) == []
    assert await make() == 201
    assert await accounts(client) == ["default"]


async def test_it_comes_back_as_long_as_the_namespace_is_there(
    client: httpx2.AsyncClient, parts: Parts
) -> None:
    """With another uid. It goes with the namespace."""
    await client.post(NAMESPACES, json=SPACE)
    first = (await client.get(f"{ACCOUNTS}/default")).json()
    assert (await client.delete(f"{ACCOUNTS}/default")).status_code == 200
    second = (await client.get(f"{ACCOUNTS}/default")).json()
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    collecting = asyncio.create_task(parts.collector.run())
    await client.delete(f"{NAMESPACES}/ns")
    while (await client.get(f"{NAMESPACES}/ns")).status_code != 404:
        await asyncio.sleep(0)
    collecting.cancel()
    assert await accounts(client) == []


def test_namespaces_of_before_get_one_at_the_start(tmp_path: Path) -> None:
    """A state directory of an older release has none."""
    parts = Parts(Config(tmp_path, definitions=[]))
    parts.store.delete(Key("serviceaccounts", "default", "default"))
    parts.store.close()
    parts = Parts(Config(tmp_path, definitions=[]))
    assert parts.store.get(Key("serviceaccounts", "default", "default"))
    parts.store.close()
