"""Finalizers, grace periods of Pods, preconditions, collections."""

from __future__ import annotations

from typing import Any

import httpx2

PODS = "/api/v1/namespaces/default/pods"
MERGE = {"content-type": "application/merge-patch+json"}


def pod(name: str = "p", **spec: Any) -> Any:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]} | spec}


async def test_an_object_that_nothing_holds_goes_at_once(
    client: httpx2.AsyncClient, widget: Any, widgets: str
) -> None:
    """A delete answers Success with the UID, and the object is gone."""
    uid = (await client.post(widgets, json=widget())).json()["metadata"]["uid"]
    answer = (await client.delete(f"{widgets}/w")).json()
    assert (answer["status"], answer["details"]["uid"]) == ("Success", uid)
    assert (await client.get(f"{widgets}/w")).status_code == 404


async def test_a_finalizer_holds_until_it_is_taken_off(
    client: httpx2.AsyncClient, widget: Any, widgets: str
) -> None:
    """A deleted object with a finalizer stays, marked, and takes no new one; without it, it goes."""
    obj = widget()
    obj["metadata"]["finalizers"] = ["test.example/hold"]
    await client.post(widgets, json=obj)
    marked = (await client.delete(f"{widgets}/w")).json()
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["generation"] == 2
    again = (await client.delete(f"{widgets}/w")).json()
    assert again["metadata"]["resourceVersion"] == marked["metadata"]["resourceVersion"]
    more = {"metadata": {"finalizers": ["test.example/hold", "test.example/more"]}}
    assert (await client.patch(f"{widgets}/w", json=more, headers=MERGE)).status_code == 422
    gone = await client.patch(f"{widgets}/w", json={"metadata": {"finalizers": None}}, headers=MERGE)
    assert gone.status_code == 200
    assert (await client.get(f"{widgets}/w")).status_code == 404


async def test_a_pod_that_no_node_runs_goes_at_once(client: httpx2.AsyncClient) -> None:
    """Without a node there is nothing to end in good order."""
    await client.post(PODS, json=pod())
    await client.delete(f"{PODS}/p")
    assert (await client.get(f"{PODS}/p")).status_code == 404


async def test_a_pod_on_a_node_waits_for_its_node(client: httpx2.AsyncClient) -> None:
    """The Pod is marked with its grace period, which may shrink; the node's delete with 0 seconds ends it."""
    await client.post(PODS, json=pod(nodeName="n", terminationGracePeriodSeconds=20))
    marked = (await client.delete(f"{PODS}/p")).json()["metadata"]
    assert marked["deletionGracePeriodSeconds"] == 20
    assert marked["deletionTimestamp"] > marked["creationTimestamp"]
    longer = (await client.delete(f"{PODS}/p", params={"gracePeriodSeconds": 60})).json()["metadata"]
    assert longer["deletionGracePeriodSeconds"] == 20
    shorter = (await client.delete(f"{PODS}/p", params={"gracePeriodSeconds": 5})).json()["metadata"]
    assert shorter["deletionGracePeriodSeconds"] == 5
    await client.request("DELETE", f"{PODS}/p", json={"gracePeriodSeconds": 0})
    assert (await client.get(f"{PODS}/p")).status_code == 404


async def test_a_delete_can_be_bound_to_one_object(
    client: httpx2.AsyncClient, widget: Any, widgets: str
) -> None:
    """A precondition on UID or resource version that does not hold is a conflict."""
    created = (await client.post(widgets, json=widget())).json()["metadata"]
    for wrong in ({"uid": "0"}, {"resourceVersion": "1"}):
        answer = await client.request("DELETE", f"{widgets}/w", json={"preconditions": wrong})
        assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")
    right = {"uid": created["uid"], "resourceVersion": created["resourceVersion"]}
    answer = await client.request("DELETE", f"{widgets}/w", json={"preconditions": right})
    assert answer.status_code == 200


async def test_a_collection_is_deleted_by_selector(
    client: httpx2.AsyncClient, widget: Any, widgets: str
) -> None:
    """deletecollection deletes what the selector matches, and a dry run nothing."""
    for name, tier in (("a", "x"), ("b", "x"), ("c", "y")):
        await client.post(widgets, json=widget(name, labels={"tier": tier}))
    params = {"labelSelector": "tier=x"}
    await client.delete(widgets, params=params | {"dryRun": "All"})
    deleted = (await client.delete(widgets, params=params)).json()
    assert [item["metadata"]["name"] for item in deleted["items"]] == ["a", "b"]
    left = (await client.get(widgets)).json()["items"]
    assert [item["metadata"]["name"] for item in left] == ["c"]
