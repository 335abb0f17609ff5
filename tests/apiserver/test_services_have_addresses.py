"""A Service gets an address of its own and keeps it; as in a cluster, except that nothing answers there."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headgate.apiserver import Config
from headgate.apiserver.parts import Parts
from headgate.apiserver.service_addresses import RANGE
from headgate.apiserver.targets import Target, WriteOptions

SERVICES = "/api/v1/namespaces/default/services"
PORTS = [{"port": 80}]
MERGE = {"content-type": "application/merge-patch+json"}


async def create(client: httpx2.AsyncClient, name: str, **spec: Any) -> httpx2.Response:
    body = {"metadata": {"name": name}, "spec": {"ports": PORTS, **spec}}
    return await client.post(SERVICES, json=body)


async def test_each_gets_an_address_that_no_other_has(client: httpx2.AsyncClient) -> None:
    """The address is of the range, and comes with what says that there is one."""
    found = set()
    for number in range(20):
        spec = (await create(client, f"s{number}")).json()["spec"]
        assert ipaddress.ip_address(spec["clusterIP"]) in RANGE
        assert spec["clusterIPs"] == [spec["clusterIP"]]
        assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
        found.add(spec["clusterIP"])
    assert len(found) == 20


async def test_an_address_may_be_asked_for_if_it_is_free(client: httpx2.AsyncClient) -> None:
    """Once its Service is gone, or was never stored, another may have it."""
    assert (await create(client, "a", clusterIP="10.96.0.10")).json()["spec"]["clusterIP"] == "10.96.0.10"
    refused = await create(client, "b", clusterIP="10.96.0.10")
    assert refused.status_code == 422
    assert "failed to allocate IP 10.96.0.10: provided IP is already allocated" in refused.text
    body = {"metadata": {"name": "d"}, "spec": {"ports": PORTS, "clusterIP": "10.96.0.11"}}
    assert (await client.post(SERVICES, json=body, params={"dryRun": "All"})).status_code == 201
    assert (await create(client, "c", clusterIP="10.96.0.11")).status_code == 201
    await client.delete(f"{SERVICES}/a")
    assert (await create(client, "b", clusterIP="10.96.0.10")).status_code == 201


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"clusterIP": "192.0.2.1"}, "is not in the valid range. The range of valid IPs is 10.96.0.0/12"),
        ({"clusterIP": "mine"}, "must be a valid IP address"),
        ({"clusterIPs": ["10.96.0.9"]}, "must be empty when `clusterIP` is not specified"),
        ({"clusterIP": "10.96.0.8", "clusterIPs": ["10.96.0.9"]}, "first value must match `clusterIP`"),
        (
            {"ipFamilies": ["IPv6"]},
            'spec.ipFamilies[0]: Invalid value: \\"IPv6\\": not configured on this cluster',
        ),
        ({"ipFamilyPolicy": "RequireDualStack"}, "not configured for dual-stack services"),
        ({"type": "ExternalName", "externalName": "a.b", "clusterIP": "10.96.0.9"}, "ExternalName services"),
    ],
)
async def test_an_address_that_cannot_be_is_refused(
    client: httpx2.AsyncClient, spec: dict[str, Any], told: str
) -> None:
    """With Kubernetes' words for it."""
    refused = await create(client, "s", **spec)
    assert refused.status_code == 422
    assert told in refused.text


async def test_who_asks_for_none_gets_none(client: httpx2.AsyncClient) -> None:
    """Headless Services and mere names have no address."""
    headless = (await create(client, "h", clusterIP="None")).json()["spec"]
    assert (headless["clusterIP"], headless["clusterIPs"]) == ("None", ["None"])
    name = (await create(client, "n", type="ExternalName", externalName="a.b")).json()["spec"]
    assert "clusterIP" not in name


async def test_an_address_stays(client: httpx2.AsyncClient) -> None:
    """An update without it keeps it, one that changes it is refused; a mere name gives it up."""
    made = (await create(client, "s")).json()
    address = made["spec"]["clusterIP"]
    del made["spec"]["clusterIP"], made["spec"]["clusterIPs"]
    kept = (await client.put(f"{SERVICES}/s", json=made)).json()["spec"]
    assert (kept["clusterIP"], kept["clusterIPs"]) == (address, [address])
    change = {"spec": {"clusterIP": "10.96.0.77"}}
    refused = await client.patch(f"{SERVICES}/s", json=change, headers=MERGE)
    assert "may not change once set" in refused.json()["message"]
    change = {"spec": {"type": "ExternalName", "externalName": "a.b"}}
    named = await client.patch(f"{SERVICES}/s", json=change, headers=MERGE)
    assert "clusterIP" not in named.json()["spec"]
    change = {"spec": {"type": "ClusterIP", "externalName": None}}
    again = await client.patch(f"{SERVICES}/s", json=change, headers=MERGE)
    assert ipaddress.ip_address(again.json()["spec"]["clusterIP"]) in RANGE


def test_addresses_survive_a_restart(tmp_path: Path) -> None:
    """A server that comes back knows what is taken, though it begins to count anew."""
    given = []
    for number in range(2):
        parts = Parts(Config(tmp_path, definitions=[]))
        served = parts.registry.find("", "v1", "services")
        assert served
        service = {"metadata": {"name": f"s{number}"}, "spec": {"ports": [{"port": 80}]}}
        made = parts.objects.create(Target(served, "default", ""), service, WriteOptions(), [])
        given.append(made.obj["spec"]["clusterIP"])
        parts.store.close()
    assert given[0] != given[1]
