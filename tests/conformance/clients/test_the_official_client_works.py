"""Python's official client: typed objects, custom objects, patches, lists in pages, watches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kubernetes
import pytest
from kubernetes.client import ApiException

PLACE = ("conformance.headgate.dev", "v1")


@pytest.fixture
def api(server: Any) -> Iterator[Any]:
    """An ApiClient of the official package."""
    made = kubernetes.config.new_client_from_config(str(server.kubeconfig))
    yield made
    made.close()


@pytest.fixture
def core(api: Any) -> Any:
    return kubernetes.client.CoreV1Api(api)


def config_map(name: str, **data: str) -> Any:
    meta = kubernetes.client.V1ObjectMeta(name=name, labels={"suite": "python"})
    return kubernetes.client.V1ConfigMap(metadata=meta, data=data)


def test_typed_objects_go_there_and_back(core: Any, namespace: str) -> None:
    """Create, read, patch, replace and delete, with the client's own models."""
    created = core.create_namespaced_config_map(namespace, config_map("c", a="1"))
    assert created.metadata.uid
    assert created.metadata.creation_timestamp.tzinfo is not None
    patched = core.patch_namespaced_config_map("c", namespace, {"data": {"b": "2"}})
    assert patched.data == {"a": "1", "b": "2"}
    patched.data = {"c": "3"}
    replaced = core.replace_namespaced_config_map("c", namespace, patched)
    assert core.read_namespaced_config_map("c", namespace).data == {"c": "3"}
    assert int(replaced.metadata.resource_version) > int(created.metadata.resource_version)
    with pytest.raises(ApiException) as stale:
        core.replace_namespaced_config_map("c", namespace, created)
    assert stale.value.status == 409
    core.delete_namespaced_config_map("c", namespace)
    with pytest.raises(ApiException) as missing:
        core.read_namespaced_config_map("c", namespace)
    assert (missing.value.status, missing.value.reason) == (404, "Not Found")


def test_lists_come_in_pages(core: Any, namespace: str) -> None:
    """`limit` and `continue` go through all objects once; selectors select; a collection is deleted."""
    for number in range(5):
        core.create_namespaced_config_map(namespace, config_map(f"c{number}"))
    names, token = [], None
    while True:
        page = core.list_namespaced_config_map(
            namespace, label_selector="suite=python", limit=2, _continue=token
        )
        assert len(page.items) <= 2
        names += [item.metadata.name for item in page.items]
        if not (token := page.metadata._continue):
            break
    assert names == ["c0", "c1", "c2", "c3", "c4"]
    one = core.list_namespaced_config_map(namespace, field_selector="metadata.name=c3")
    assert [item.metadata.name for item in one.items] == ["c3"]
    core.delete_collection_namespaced_config_map(namespace, label_selector="suite=python")
    assert core.list_namespaced_config_map(namespace, label_selector="suite=python").items == []


def test_custom_objects_have_status_and_scale(api: Any, namespace: str, gate: Any) -> None:
    """Custom objects with their subresources; an invalid one is refused with its fields."""
    custom = kubernetes.client.CustomObjectsApi(api)
    place = (*PLACE, namespace, "gates")
    assert custom.create_namespaced_custom_object(*place, gate)["spec"]["material"] == "oak"
    status = {"status": {"state": "open", "replicas": 1}}
    custom.patch_namespaced_custom_object_status(*place, "north", status)
    scale = custom.get_namespaced_custom_object_scale(*place, "north")
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (2, 1)
    custom.patch_namespaced_custom_object_scale(*place, "north", {"spec": {"replicas": 4}})
    stored = custom.get_namespaced_custom_object(*place, "north")
    assert (stored["spec"]["replicas"], stored["status"]["state"]) == (4, "open")
    gate["metadata"]["name"] = "wide"
    gate["spec"]["width"] = 101
    with pytest.raises(ApiException) as refused:
        custom.create_namespaced_custom_object(*place, gate)
    assert refused.value.status == 422
    assert '"field":"spec.width"' in refused.value.body


def test_the_dynamic_client_applies(api: Any, namespace: str, gate: Any) -> None:
    """Kinds are found by discovery, and applied server-side."""
    dynamic = kubernetes.dynamic.DynamicClient(api)
    gates = dynamic.resources.get(api_version="/".join(PLACE), kind="Gate")
    applied = gates.server_side_apply(body=gate, name="north", namespace=namespace, field_manager="python")
    assert applied.spec.material == "oak"
    assert [entry.manager for entry in applied.metadata.managedFields] == ["python"]
    assert [item.metadata.name for item in gates.get(namespace=namespace).items] == ["north"]


def test_deployments_and_leases_are_typed(api: Any, namespace: str) -> None:
    """Models with many fields decode what the server answers."""
    client = kubernetes.client
    labels = {"app": "web"}
    pod = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels),
        spec=client.V1PodSpec(containers=[client.V1Container(name="web", image="web:1")]),
    )
    spec = client.V1DeploymentSpec(
        replicas=0, selector=client.V1LabelSelector(match_labels=labels), template=pod
    )
    apps = client.AppsV1Api(api)
    meta = client.V1ObjectMeta(name="web")
    apps.create_namespaced_deployment(namespace, client.V1Deployment(metadata=meta, spec=spec))
    assert apps.read_namespaced_deployment("web", namespace).spec.template.spec.containers[0].image == "web:1"
    scale = apps.read_namespaced_deployment_scale("web", namespace)
    assert (scale.spec.replicas, scale.status.replicas) == (None, 0)  # a desired number of 0 is left out
    leases = client.CoordinationV1Api(api)
    lease = client.V1LeaseSpec(holder_identity="me", lease_duration_seconds=15)
    leases.create_namespaced_lease(
        namespace, client.V1Lease(metadata=client.V1ObjectMeta(name="l"), spec=lease)
    )
    assert leases.read_namespaced_lease("l", namespace).spec.holder_identity == "me"


def test_a_watch_tells_changes_and_ends_in_time(core: Any, namespace: str) -> None:
    """From a list's resourceVersion on, every change once; `timeout_seconds` ends it."""
    core.create_namespaced_config_map(namespace, config_map("before"))
    listed = core.list_namespaced_config_map(namespace, label_selector="suite=python")
    core.create_namespaced_config_map(namespace, config_map("c", a="1"))
    core.patch_namespaced_config_map("c", namespace, {"data": {"a": "2"}})
    core.delete_namespaced_config_map("c", namespace)
    seen = [
        (event["type"], event["object"].metadata.name, event["object"].data)
        for event in kubernetes.watch.Watch().stream(
            core.list_namespaced_config_map,
            namespace,
            label_selector="suite=python",
            resource_version=listed.metadata.resource_version,
            timeout_seconds=1,
        )
    ]
    assert seen == [("ADDED", "c", {"a": "1"}), ("MODIFIED", "c", {"a": "2"}), ("DELETED", "c", {"a": "2"})]
