"""JSON patch, merge patch and strategic merge patch as pure functions."""

from __future__ import annotations

import copy
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import api
from headgate.apiserver import errors, patch

SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=2)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


def merged(target: Any, change: Any) -> Any:
    """RFC 7386 once more, as its pseudo code has it, without changing its arguments."""
    if not isinstance(change, dict):
        return change
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in change.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def difference(old: Any, new: Any) -> Any:
    """The merge patch that makes `new` of `old`; works where `new` has no nulls in objects."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    change: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        if name not in old or old[name] != value:
            change[name] = difference(old.get(name), value)
    return change


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return value


@given(OBJECTS, VALUES)
def test_a_merge_patch_is_that_of_the_rfc(target: Any, change: Any) -> None:
    """Our merge patch gives what the pseudo code of RFC 7386 gives."""
    assert patch.merge_patch(copy.deepcopy(target), copy.deepcopy(change)) == merged(target, change)


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_twice_is_as_once(target: Any, change: Any) -> None:
    """Merge patches are idempotent."""
    once = patch.merge_patch(copy.deepcopy(target), copy.deepcopy(change))
    assert patch.merge_patch(copy.deepcopy(once), copy.deepcopy(change)) == once


@given(OBJECTS, OBJECTS)
def test_a_difference_patch_leads_to_the_new_object(old: Any, new: Any) -> None:
    """Patching an object by its difference to another one (that has no nulls) makes the other one."""
    old, new = without_nulls(old), without_nulls(new)
    assert patch.merge_patch(copy.deepcopy(old), difference(old, new)) == new


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([{"op": "add", "path": "/b", "value": 1}], {"a": [1, 2], "b": 1}),
        ([{"op": "add", "path": "/a/0", "value": 0}], {"a": [0, 1, 2]}),
        ([{"op": "add", "path": "/a/-", "value": 3}], {"a": [1, 2, 3]}),
        ([{"op": "remove", "path": "/a/1"}], {"a": [1]}),
        ([{"op": "replace", "path": "/a", "value": {}}], {"a": {}}),
        ([{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1, 2], "b": [1, 2]}),
        ([{"op": "move", "from": "/a", "path": "/b"}], {"b": [1, 2]}),
        ([{"op": "add", "path": "/x~1y~0z", "value": 1}, {"op": "remove", "path": "/a"}], {"x/y~z": 1}),
        ([{"op": "test", "path": "/a/0", "value": 1}], {"a": [1, 2]}),
        ([{"op": "replace", "path": "", "value": {"z": 1}}], {"z": 1}),
    ],
)
def test_a_json_patch_does_its_operations_in_order(operations: Any, expected: Any) -> None:
    """Every operation of RFC 6902 works."""
    assert patch.apply("json", {"a": [1, 2]}, operations, {}) == expected


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/none"},
        {"op": "replace", "path": "/none", "value": 1},
        {"op": "test", "path": "/a/0", "value": 2},
        {"op": "test", "path": "/a/0", "value": True},
        {"op": "add", "path": "/a/7", "value": 1},
        {"op": "add", "path": "/a/01", "value": 1},
        {"op": "add", "path": "/none/x", "value": 1},
        {"op": "add", "path": "b", "value": 1},
        {"op": "add", "path": "/b"},
        {"op": "move", "from": "/a", "path": "/a/0"},
        {"op": "explode", "path": "/a"},
        {"path": "/a"},
        "remove",
    ],
)
def test_a_json_patch_that_does_not_fit_is_unprocessable(operation: Any) -> None:
    """An operation that cannot be done refuses the patch with 422 and says which."""
    with pytest.raises(errors.StatusError, match="operation 0") as refused:
        patch.apply("json", {"a": [1, 2]}, [operation], {})
    assert refused.value.code == 422


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (
            {"op": "remove", "path": "/none"},
            '{"op":"remove","path":"/none"}, cannot be done: there is no "none"',
        ),
        ({"op": "add", "path": "/b"}, "cannot be done: value is missing"),
        ({"op": "explode", "path": "/a"}, "there is no such operation; there are add, remove, replace,"),
    ],
)
def test_a_json_patch_says_why_it_does_not_fit(operation: Any, reason: str) -> None:
    """The operation is shown as it came, with what is wrong about it."""
    with pytest.raises(errors.StatusError) as refused:
        patch.apply("json", {"a": [1, 2]}, [operation], {})
    assert reason in refused.value.message


def test_a_json_patch_copies_no_more_than_kubernetes_allows() -> None:
    """Sixty copies of an object into itself, each doubling it, end with 413, not with the memory."""
    doubling = [{"op": "copy", "from": "/a", "path": f"/a/{number}"} for number in range(60)]
    with pytest.raises(errors.StatusError, match="accumulated size increase of copy") as refused:
        patch.apply("json", {"a": {"b": "c" * 100}}, doubling, {})
    assert refused.value.code == 413


def test_a_json_patch_has_a_limit_of_operations() -> None:
    """More operations than Kubernetes takes are refused with their number."""
    with pytest.raises(errors.StatusError, match="JSON patch is 10000, got 10001") as refused:
        patch.apply("json", {}, [{"op": "test", "path": "", "value": {}}] * 10_001, {})
    assert refused.value.code == 413


def test_a_patch_must_leave_an_object() -> None:
    """Removing or replacing the whole object by something else is refused."""
    for body in ([{"op": "remove", "path": ""}], [{"op": "replace", "path": "", "value": 1}]):
        with pytest.raises(errors.StatusError, match="not an object"):
            patch.apply("json", {"a": 1}, body, {})
    with pytest.raises(errors.StatusError, match="must be an object"):
        patch.apply("merge", {"a": 1}, 5, {})


@pytest.fixture
def deployment_schema() -> Any:
    found = (d for d in api.builtin_definitions() if d["metadata"]["name"] == "deployments.apps")
    return next(found)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def containers(*items: Any) -> Any:
    return {"spec": {"template": {"spec": {"containers": list(items)}}}}


def test_a_strategic_patch_merges_containers_by_name(deployment_schema: Any) -> None:
    """The named container changes, the other stays, a new one comes first, environment merges by name too."""
    current = containers(
        {"name": "a", "image": "a:1", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]},
        {"name": "b", "image": "b:1"},
    )
    change = containers({"name": "c", "image": "c:1"}, {"name": "a", "env": [{"name": "Y", "value": "3"}]})
    changed = patch.apply("strategic", current, change, deployment_schema)
    assert changed == containers(
        {"name": "c", "image": "c:1"},
        {"name": "a", "image": "a:1", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "3"}]},
        {"name": "b", "image": "b:1"},
    )


def test_strategic_directives_delete_replace_and_order(deployment_schema: Any) -> None:
    """$patch delete removes an item, replace replaces the list, $setElementOrder sorts it."""
    current = containers({"name": "a"}, {"name": "b"}, {"name": "c"})
    deleted = containers({"name": "b", "$patch": "delete"})
    assert patch.apply("strategic", copy.deepcopy(current), deleted, deployment_schema) == containers(
        {"name": "a"}, {"name": "c"}
    )
    replaced = containers({"$patch": "replace"}, {"name": "z"})
    assert patch.apply("strategic", copy.deepcopy(current), replaced, deployment_schema) == containers(
        {"name": "z"}
    )
    ordered = containers({"name": "d"})
    order = [{"name": "c"}, {"name": "a"}, {"name": "d"}]
    ordered["spec"]["template"]["spec"]["$setElementOrder/containers"] = order
    changed = patch.apply("strategic", copy.deepcopy(current), ordered, deployment_schema)
    names = [c["name"] for c in changed["spec"]["template"]["spec"]["containers"]]
    assert names == ["c", "b", "a", "d"]


def test_a_strategic_patch_removes_by_null_and_replaces_plain_lists(deployment_schema: Any) -> None:
    """null removes a field; a list without a merge key is replaced; $retainKeys drops all others."""
    current = {
        "spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}, "replicas": 2}
    }
    change = {"spec": {"replicas": None, "strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    changed = patch.apply("strategic", current, change, deployment_schema)
    assert changed == {"spec": {"strategy": {"type": "Recreate"}}}
    args = patch.apply(
        "strategic",
        containers({"name": "a", "args": ["1", "2"]}),
        containers({"name": "a", "args": ["3"]}),
        deployment_schema,
    )
    assert args == containers({"name": "a", "args": ["3"]})


def test_finalizers_merge_as_a_set_in_a_strategic_patch(deployment_schema: Any) -> None:
    """Lists of values merge, and $deleteFromPrimitiveList takes values out."""
    schema = deployment_schema | {"properties": {"finalizers": {"x-kubernetes-patch-strategy": "merge"}}}
    added = patch.apply("strategic", {"finalizers": ["a"]}, {"finalizers": ["b", "a"]}, schema)
    assert added == {"finalizers": ["b", "a"]}
    taken = patch.apply("strategic", added, {"$deleteFromPrimitiveList/finalizers": ["a"]}, schema)
    assert taken == {"finalizers": ["b"]}


async def strategic(client: httpx2.AsyncClient, url: str, patch: Any) -> Any:
    headers = {"content-type": "application/strategic-merge-patch+json"}
    answer = await client.patch(url, json=patch, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_lists_of_built_in_kinds_keep_what_a_patch_does_not_name(client: httpx2.AsyncClient) -> None:
    """kubectl apply sends only the items that changed, of volumes, mounts and ports of Services too."""
    url = "/apis/apps/v1/namespaces/default/deployments"
    mounts = [{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/b"}]
    volumes = [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}]
    container = {"name": "c", "image": "i", "volumeMounts": mounts}
    pod = {"containers": [container], "volumes": volumes, "imagePullSecrets": [{"name": "s"}]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    await client.post(url, json={"metadata": {"name": "p"}, "spec": spec})
    change = {
        "$setElementOrder/volumes": [{"name": "a"}, {"name": "b"}],
        "volumes": [{"$retainKeys": ["name", "hostPath"], "name": "b", "hostPath": {"path": "/x"}}],
        "containers": [{"name": "c", "volumeMounts": [{"mountPath": "/b", "name": "b", "readOnly": True}]}],
        "imagePullSecrets": [{"name": "t"}],
    }
    patched = await strategic(client, f"{url}/p", {"spec": {"template": {"spec": change}}})
    after = patched["spec"]["template"]["spec"]
    assert after["volumes"] == [volumes[0], {"name": "b", "hostPath": {"path": "/x"}}]
    assert after["containers"][0]["volumeMounts"] == [mounts[0], {**mounts[1], "readOnly": True}]
    assert [secret["name"] for secret in after["imagePullSecrets"]] == ["t", "s"]
    services = "/api/v1/namespaces/default/services"
    ports = [{"name": "a", "port": 1}, {"name": "b", "port": 2}]
    await client.post(services, json={"metadata": {"name": "s"}, "spec": {"ports": ports}})
    change = {"ports": [{"port": 1, "$patch": "delete"}, {"port": 2, "targetPort": 5}]}
    after = (await strategic(client, f"{services}/s", {"spec": change}))["spec"]
    assert [(port["name"], port.get("targetPort")) for port in after["ports"]] == [("b", 5)]


async def test_ports_are_owned_by_number_and_protocol(client: httpx2.AsyncClient) -> None:
    """Two ports of one number and two protocols are two items to server-side apply."""
    ports = [{"name": "a", "port": 53}, {"name": "b", "port": 53, "protocol": "UDP"}]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "dns"}, "spec": {"ports": ports}}
    answer = await client.patch(
        "/api/v1/namespaces/default/services/dns",
        json=service,
        params={"fieldManager": "me"},
        headers={"content-type": "application/apply-patch+yaml"},
    )
    assert answer.status_code == 201
    owned = answer.json()["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:ports"]
    assert set(owned) == {'k:{"port":53,"protocol":"TCP"}', 'k:{"port":53,"protocol":"UDP"}'}


def test_long_lists_merge_in_time() -> None:
    """Lists as long as a body allows merge, are ordered and thinned in no time."""
    names = [f"n{number}" for number in range(20_000)]
    plain = {"type": "array", "x-kubernetes-patch-strategy": "merge"}
    keyed = {**plain, "x-kubernetes-patch-merge-key": "name", "items": {}}
    schema = {"properties": {"plain": plain, "keyed": keyed}}
    objects = [{"name": name} for name in names]
    change = {
        "plain": list(names),
        "$setElementOrder/plain": names[::-1],
        "keyed": [{**each, "$patch": "delete"} for each in objects[1:]],
        "$deleteFromPrimitiveList/plain": names[1:-1],
    }
    merged = patch.apply("strategic", {"plain": list(names), "keyed": objects}, change, schema)
    assert merged == {"plain": [names[-1], names[0]], "keyed": [{"name": "n0"}]}
