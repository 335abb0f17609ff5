"""`kubectl create`, `run`, `expose` and raw requests."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest

pytestmark = pytest.mark.kubectl


@pytest.mark.parametrize(
    ("arguments", "name", "part", "value"),
    [
        (("configmap", "c", "--from-literal=a=1"), "configmap/c", "data", {"a": "1"}),
        (("secret", "generic", "s", "--from-literal=a=1"), "secret/s", "data", {"a": "MQ=="}),
        (("secret", "generic", "t", "--type=test/x", "--from-literal=a=1"), "secret/t", "type", "test/x"),
        (("serviceaccount", "robot"), "serviceaccount/robot", "kind", "ServiceAccount"),
    ],
)
def test_kinds_are_created_by_name(
    kubectl: Any, arguments: tuple[str, ...], name: str, part: str, value: Any
) -> None:
    """`create KIND NAME` for the kinds that kubectl knows itself."""
    assert kubectl("create", *arguments) == f"{name} created\n"
    assert kubectl.get(name)[part] == value


def test_a_configmap_comes_from_files(kubectl: Any, tmp_path: Any) -> None:
    """`--from-file` takes text as data and other bytes as binaryData; `--from-env-file` one key a line."""
    (tmp_path / "text").write_text("hello\n")
    (tmp_path / "bytes").write_bytes(b"\xff\x00")
    (tmp_path / "env").write_text("A=1\nB=2\n")
    kubectl(
        "create", "configmap", "f", f"--from-file={tmp_path / 'text'}", f"--from-file=b={tmp_path / 'bytes'}"
    )
    stored = kubectl.get("configmap", "f")
    assert stored["data"] == {"text": "hello\n"}
    assert base64.b64decode(stored["binaryData"]["b"]) == b"\xff\x00"
    kubectl("create", "configmap", "e", f"--from-env-file={tmp_path / 'env'}")
    assert kubectl.get("configmap", "e")["data"] == {"A": "1", "B": "2"}


def test_a_deployment_and_its_service_are_created(kubectl: Any) -> None:
    """`create deployment`, `expose` and `create service` fill in selectors and ports."""
    made = kubectl("create", "deployment", "web", "--image=web:1", "--replicas=0", "--port=80")
    assert made == "deployment.apps/web created\n"
    deployment = kubectl.get("deployment", "web")
    assert deployment["spec"]["replicas"] == 0
    assert deployment["spec"]["selector"] == {"matchLabels": {"app": "web"}}
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert (container["name"], container["image"]) == ("web", "web:1")
    assert container["ports"][0]["containerPort"] == 80
    shown = kubectl("describe", "deployment", "web").splitlines()
    assert "StrategyType:           RollingUpdate" in shown
    assert "RollingUpdateStrategy:  25% max unavailable, 25% max surge" in shown
    assert kubectl("expose", "deployment", "web", "--target-port=8080") == "service/web exposed\n"
    service = kubectl.get("service", "web")["spec"]
    assert service["selector"] == {"app": "web"}
    assert service["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 8080}]
    assert (service["type"], service["sessionAffinity"]) == ("ClusterIP", "None")
    kubectl("create", "service", "clusterip", "other", "--tcp=90:91", "--clusterip=None")
    assert kubectl.get("service", "other")["spec"]["clusterIP"] == "None"


@pytest.mark.controllers
def test_a_namespace_is_created_and_goes(kubectl: Any) -> None:
    """`create namespace`; it is Active until it is deleted with all that is in it."""
    name = f"{kubectl.namespace}-more"
    assert kubectl("create", "namespace", name) == "namespace/NAMESPACE-more created\n"
    assert kubectl("get", "namespace", name).splitlines()[1].split()[:2] == ["NAMESPACE-more", "Active"]
    labels = kubectl.get("namespace", name)["metadata"]["labels"]
    assert labels == {"kubernetes.io/metadata.name": name.replace(kubectl.namespace, "NAMESPACE")}
    kubectl("create", "configmap", "inside", "--namespace", name)
    assert kubectl.run("delete", "namespace", name).out == 'namespace "NAMESPACE-more" deleted\n'
    assert kubectl.run("get", "namespace", name).code == 1


def test_a_deployment_is_scaled_by_metrics(kubectl: Any) -> None:
    """`autoscale` makes a HorizontalPodAutoscaler with its bounds."""
    kubectl("create", "deployment", "web", "--image=web:1", "--replicas=0")
    made = kubectl("autoscale", "deployment", "web", "--min=2", "--max=5", "--cpu-percent=80")
    assert made == "horizontalpodautoscaler.autoscaling/web autoscaled\n"
    spec = kubectl.get("hpa", "web")["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 5)
    assert spec["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def test_a_pod_is_run(kubectl: Any) -> None:
    """`run` makes a Pod; without a node it is Pending."""
    nowhere = '{"spec":{"nodeSelector":{"conformance.headgate.dev/none":"here"}}}'
    made = kubectl("run", "one", "--image=web:1", "--env=A=1", "--labels=app=web", f"--overrides={nowhere}")
    assert made == "pod/one created\n"
    pod = kubectl.get("pod", "one")
    assert pod["metadata"]["labels"] == {"app": "web"}
    assert pod["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}]
    assert pod["status"]["phase"] == "Pending"
    header, row = kubectl("get", "pods").splitlines()
    assert header == "NAME   READY   STATUS    RESTARTS   AGE"
    assert row.split()[:4] == ["one", "0/1", "Pending", "0"]
    wide = re.split(r"  +", kubectl("get", "pods", "-o", "wide").splitlines()[0])
    assert wide[5:] == ["IP", "NODE", "NOMINATED NODE", "READINESS GATES"]


def test_a_dry_run_shows_what_would_be_created(kubectl: Any, gate: Any) -> None:
    """On the client it is the manifest, on the server the object as it would be stored."""
    dry = kubectl("create", "configmap", "c", "--from-literal=a=1", "--dry-run=client", "-o", "yaml")
    assert re.sub(r"  creationTimestamp: null\n", "", dry) == (
        'apiVersion: v1\ndata:\n  a: "1"\nkind: ConfigMap\nmetadata:\n  name: c\n'
        + ("  namespace: NAMESPACE\n" if "namespace" in dry else "")
    )
    told = kubectl("create", "configmap", "c", "--dry-run=server")
    assert told == "configmap/c created (server dry run)\n"
    shown = json.loads(kubectl("create", "-f", "-", "--dry-run=server", "-o", "json", stdin=gate))
    assert shown["metadata"]["uid"]
    assert shown["spec"]["material"] == "oak"
    assert kubectl("get", "gates", "-o", "name") == ""


def test_names_are_generated(kubectl: Any, gate: Any) -> None:
    """`generateName` gets five letters and digits, different each time."""
    gate["metadata"] = {"generateName": "gate-"}
    names = {kubectl("create", "-f", "-", "-o", "name", stdin=gate) for _ in range(3)}
    assert len(names) == 3
    for name in names:
        assert re.fullmatch(r"gate\.conformance\.headgate\.dev/gate-[a-z0-9]{5}\n", name)
    refused = kubectl.refused("apply", "-f", "-", stdin=gate)
    assert "cannot use generate name with apply" in refused


def test_several_objects_are_created_as_far_as_they_go(kubectl: Any, gate: Any) -> None:
    """What exists already is told, and the rest is done; the items of a List are objects as well."""
    kubectl("create", "-f", "-", stdin=gate)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    done = kubectl.run("create", "-f", "-", stdin=[gate, config])
    assert (done.code, done.out) == (1, "configmap/c created\n")
    assert done.err == (
        'Error from server (AlreadyExists): error when creating "STDIN": '
        'gates.conformance.headgate.dev "north" already exists\n'
    )
    listed = [config | {"metadata": {"name": name}} for name in ("d", "e")]
    created = kubectl("create", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": listed})
    assert created == "configmap/d created\nconfigmap/e created\n"


def test_raw_requests_go_as_they_are(kubectl: Any, tmp_path: Any) -> None:
    """`--raw` posts, reads, replaces and deletes by path."""
    path = f"/api/v1/namespaces/{kubectl.namespace}/configmaps"
    body = tmp_path / "body.json"
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    body.write_text(json.dumps(config))
    assert json.loads(kubectl("create", "--raw", path, "-f", str(body)))["data"] == {"a": "1"}
    config["data"] = {"a": "2"}
    body.write_text(json.dumps(config))
    kubectl("replace", "--raw", f"{path}/c", "-f", str(body))
    assert json.loads(kubectl("get", "--raw", f"{path}/c"))["data"] == {"a": "2"}
    assert json.loads(kubectl("delete", "--raw", f"{path}/c"))["status"] == "Success"
    missing = kubectl.run("get", "--raw", f"{path}/c")
    assert (missing.code, missing.err) == (1, 'Error from server (NotFound): configmaps "c" not found\n')
