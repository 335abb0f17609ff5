"""What is posted to a Pod: an Eviction deletes it in good order, a Binding gives it a node."""

from __future__ import annotations

import httpx2
import pytest

PODS = "/api/v1/namespaces/default/pods"
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
BINDING = {"apiVersion": "v1", "kind": "Binding", "metadata": {}, "target": {"kind": "Node", "name": "n"}}


@pytest.fixture
async def pod(client: httpx2.AsyncClient) -> str:
    """The URL of a Pod."""
    assert (await client.post(PODS, json=POD)).status_code == 201
    return f"{PODS}/p"


async def test_a_binding_gives_a_pod_its_node_once(client: httpx2.AsyncClient, pod: str) -> None:
    """With the annotations that the scheduler has for it; a second one is a conflict."""
    binding = {**BINDING, "metadata": {"annotations": {"a": "b"}}}
    done = await client.post(f"{pod}/binding", json=binding)
    assert (done.status_code, done.json()["status"]) == (201, "Success")
    bound = (await client.get(pod)).json()
    assert bound["spec"]["nodeName"] == "n"
    assert bound["metadata"]["annotations"] == {"a": "b"}
    again = await client.post(f"{pod}/binding", json=BINDING)
    assert again.status_code == 409
    assert again.json()["message"] == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n"'
    )


@pytest.mark.parametrize(
    ("binding", "told"),
    [
        ({**BINDING, "target": {}}, "target.name: Required value"),
        ({**BINDING, "target": {"kind": "Pod", "name": "n"}}, "target.kind: Unsupported value"),
        ({**BINDING, "metadata": {"name": "other"}}, "does not match the name on the URL"),
        ({**BINDING, "kind": "Pod"}, "a v1 Binding is needed here, not a v1 Pod"),
    ],
)
async def test_a_binding_that_says_nothing_is_refused(
    client: httpx2.AsyncClient, pod: str, binding: object, told: str
) -> None:
    """The Pod stays without a node."""
    refused = await client.post(f"{pod}/binding", json=binding)
    assert refused.status_code == 400
    assert told in refused.json()["message"]
    assert "nodeName" not in (await client.get(pod)).json()["spec"]


async def test_an_eviction_deletes_in_good_order(client: httpx2.AsyncClient, pod: str) -> None:
    """A Pod on a node gets its time to end; a dry run changes nothing."""
    await client.post(f"{pod}/binding", json=BINDING)
    assert (await client.post(f"{pod}/eviction", json=EVICTION, params={"dryRun": "All"})).status_code == 201
    assert "deletionTimestamp" not in (await client.get(pod)).json()["metadata"]
    eviction = {**EVICTION, "deleteOptions": {"gracePeriodSeconds": 7}}
    done = await client.post(f"{pod}/eviction", json=eviction)
    assert (done.status_code, done.json()["status"]) == (201, "Success")
    assert (await client.get(pod)).json()["metadata"]["deletionGracePeriodSeconds"] == 7


async def test_discovery_tells_of_both(client: httpx2.AsyncClient) -> None:
    """`kubectl drain` looks there which kind an eviction is."""
    listed = {each["name"]: each for each in (await client.get("/api/v1")).json()["resources"]}
    assert (
        listed["pods/eviction"] | {"group": "policy", "kind": "Eviction", "verbs": ["create"]}
        == (listed["pods/eviction"])
    )
    assert listed["pods/binding"]["kind"] == "Binding"


@pytest.mark.parametrize(
    ("path", "instead"),
    [
        ("exec", "shell of the machine"),
        ("attach", "kubectl logs -f p"),
        ("portforward", "connect to 127.1.2.3 itself"),
        ("proxy/some/path", "connect to 127.1.2.3 itself"),
    ],
)
async def test_what_needs_a_runtime_says_what_to_do_instead(
    client: httpx2.AsyncClient, pod: str, path: str, instead: str
) -> None:
    """kubectl prints it; of a Pod that is not there it says that."""
    status = {"status": {"podIP": "127.1.2.3"}}
    await client.patch(f"{pod}/status", json=status, headers={"content-type": "application/merge-patch+json"})
    for method in ("GET", "POST"):
        refused = await client.request(method, f"{pod}/{path}")
        assert refused.status_code == 405
        assert instead in refused.json()["message"]
    assert (await client.get(f"{PODS}/none/{path}")).status_code == 404
