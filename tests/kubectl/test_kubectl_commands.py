"""Breadth with one kubectl: patches, server-side apply, deletion, discovery, refusals."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

pytestmark = pytest.mark.kubectl


def test_every_kind_of_patch(kubectl: Any, deployment: Any, model_route: Any) -> None:
    """Strategic patches merge containers; JSON and merge patches work on all kinds, strategic not on ours."""
    kubectl("apply", "-f", "-", stdin=[deployment, model_route])
    side = '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"s:1"}]}}}}'
    kubectl("patch", "deployment", "chat", "-p", side)
    kubectl("set", "image", "deployment/chat", "side=s:2")
    kubectl("rollout", "restart", "deployment", "chat")
    template = kubectl.get("deploy", "chat")["spec"]["template"]
    assert {c["name"]: c["image"] for c in template["spec"]["containers"]} == {
        "engine": "sim:1",
        "side": "s:2",
    }
    assert "kubectl.kubernetes.io/restartedAt" in template["metadata"]["annotations"]
    weight = "/spec/rules/0/targetModels/0/weight"
    kubectl("patch", "mr", "chat", "--type=json", "-p", f'[{{"op":"replace","path":"{weight}","value":7}}]')
    kubectl("patch", "mr", "chat", "--type=merge", "-p", '{"metadata":{"labels":{"l":"y"}}}')
    kubectl("annotate", "mr", "chat", "note=x")
    route = kubectl.get("mr", "chat")
    assert route["spec"]["rules"][0]["targetModels"][0]["weight"] == 7
    assert route["metadata"]["annotations"]["note"] == "x"
    refused = kubectl.run("patch", "mr", "chat", "-p", '{"spec":{}}')
    assert "strategic-merge-patch+json is not supported" in refused.stderr


def test_server_side_apply_tells_conflicts(kubectl: Any, deployment: Any) -> None:
    """A scaled Deployment conflicts with a manifest that says how many; --force-conflicts settles it."""
    kubectl("apply", "--server-side", "-f", "-", stdin=deployment)
    kubectl("scale", "deployment", "chat", "--replicas=5")
    refused = kubectl.run("apply", "--server-side", "-f", "-", stdin=deployment)
    assert "Apply failed with 1 conflict: conflict with" in refused.stderr
    assert ".spec.replicas" in refused.stderr
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=deployment)
    assert kubectl.get("deploy", "chat")["spec"]["replicas"] == 2


def test_a_client_side_object_moves_to_server_side_apply(kubectl: Any, deployment: Any) -> None:
    """kubectl moves the fields of its client-side apply over, so a field that is then left out goes."""
    kubectl("apply", "-f", "-", stdin=deployment)
    kubectl("apply", "--server-side", "-f", "-", stdin=deployment)
    del deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    kubectl("apply", "--server-side", "-f", "-", stdin=deployment)
    assert "env" not in kubectl.get("deploy", "chat")["spec"]["template"]["spec"]["containers"][0]


def test_an_edit_and_a_replace_change_the_object(kubectl: Any, model_route: Any, tmp_path: Any) -> None:
    """`edit` with a scripted editor, and `replace` with the whole object."""
    kubectl("create", "-f", "-", stdin=model_route)
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/weight: 60/weight: 61/' \"$1\"\n")
    editor.chmod(0o700)
    subprocess.run(
        kubectl.command("edit", "mr", "chat"),
        env=os.environ | {"KUBE_EDITOR": str(editor)},
        check=True,
        capture_output=True,
        timeout=20,
    )
    assert kubectl.get("mr", "chat")["spec"]["rules"][0]["targetModels"][0]["weight"] == 61
    model_route["spec"]["rules"][0]["targetModels"][0]["weight"] = 62
    kubectl("replace", "-f", "-", stdin=model_route)
    assert kubectl.get("mr", "chat")["spec"]["rules"][0]["targetModels"][0]["weight"] == 62


def test_a_malformed_route_prints_every_error(kubectl: Any, model_route: Any) -> None:
    """All errors in one answer, one line each, with field paths; unknown fields are told first."""
    unknown = copy.deepcopy(model_route)
    unknown["spec"]["modelNam"] = "x"
    refused = kubectl.run("apply", "-f", "-", stdin=unknown)
    assert 'strict decoding error: unknown field "spec.modelNam"' in refused.stderr
    model_route["metadata"]["labels"] = {"tier": "not a label"}
    model_route["spec"]["rules"][0]["targetModels"][0]["weight"] = 101
    model_route["spec"]["rateLimit"] = {"unit": "fortnight", "global": {"redis": {}}}
    refused = kubectl.run("apply", "-f", "-", stdin=model_route)
    lines = refused.stderr.splitlines()
    assert lines[0] == 'The ModelRoute "chat" is invalid: '
    for begin in (
        '* metadata.labels: Invalid value: "not a label": ',
        "* spec.rules[0].targetModels[0].weight: Invalid value: 101: ",
        '* spec.rateLimit.unit: Unsupported value: "fortnight": supported values: ',
        "* spec.rateLimit.global.redis.address: Required value",
    ):
        assert any(line.startswith(begin) for line in lines), (begin, lines)


def test_refusals_read_as_in_a_cluster(kubectl: Any, model_route: Any) -> None:
    """NotFound, AlreadyExists and a missing namespace, word by word."""
    kubectl("create", "-f", "-", stdin=model_route)
    assert kubectl.run("get", "mr", "none").stderr == (
        'Error from server (NotFound): modelroutes.networking.volcano.sh "none" not found\n'
    )
    assert kubectl.run("create", "-f", "-", stdin=model_route).stderr == (
        'Error from server (AlreadyExists): error when creating "STDIN": '
        'modelroutes.networking.volcano.sh "chat" already exists\n'
    )
    model_route["metadata"]["namespace"] = "nowhere"
    elsewhere = kubectl.run("--namespace", "nowhere", "create", "-f", "-", stdin=model_route)
    assert elsewhere.stderr.endswith('namespaces "nowhere" not found\n')
    assert (
        kubectl.run("get", "gadgets").stderr == 'error: the server doesn\'t have a resource type "gadgets"\n'
    )


def test_a_namespace_goes_with_all_that_is_in_it(
    kubectl: Any, model_route: Any, deployment: Any, pod: Any
) -> None:
    """`delete namespace` waits until it is gone."""
    kubectl("apply", "-f", "-", stdin=[model_route, deployment, pod])
    assert "deleted" in kubectl("delete", "namespace", kubectl.namespace)
    assert kubectl.run("get", "namespace", kubectl.namespace).returncode == 1
    assert kubectl("get", "mr,deploy,po", "-o", "name") == ""


def test_delete_waits_for_a_finalizer(kubectl: Any, model_route: Any) -> None:
    """`delete --wait` returns when the finalizer is off, and not before."""
    model_route["metadata"]["finalizers"] = ["test.example/hold"]
    kubectl("create", "-f", "-", stdin=model_route)
    deleting = kubectl.start("delete", "mr", "chat")
    assert deleting.stdout.readline().startswith('modelroute.networking.volcano.sh "chat" deleted')
    assert "deletionTimestamp" in kubectl.get("mr", "chat")["metadata"]
    assert deleting.poll() is None
    kubectl("patch", "mr", "chat", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    assert deleting.wait(10) == 0


def test_tables_wide_labels_and_sorted(kubectl: Any, model_server: Any) -> None:
    """Wide output has the columns of lower priority; labels and sorting work on them."""
    kubectl("apply", "-f", "-", stdin=model_server)
    kubectl("label", "ms", "chat", "a=b")
    assert kubectl("get", "ms", "-o", "wide").split()[:5] == ["NAME", "ENGINE", "MODEL", "PORT", "READY"]
    assert "a=b" in kubectl("get", "ms", "--show-labels")
    assert kubectl("get", "ms", "--sort-by=.metadata.name", "-o", "name").count("\n") == 1
    assert kubectl("get", "ms", "chat", "-o", "jsonpath={.spec.workloadPort.port}") == "8000"
    assert "kind: ModelServer" in kubectl("get", "ms", "chat", "-o", "yaml")
    assert "modelserver.networking.volcano.sh/chat" in kubectl("get", "volcano")


def test_discovery_and_health(kubectl: Any) -> None:
    """api-resources, api-versions, version, explain of built-in kinds and raw health."""
    resources = kubectl("api-resources")
    for line in (
        "modelroutes",
        "modelservers",
        "deployments",
        "customresourcedefinitions",
        "leases",
        "events",
    ):
        assert line in resources
    assert "networking.volcano.sh/v1alpha1" in kubectl("api-versions").splitlines()
    assert "Server Version: v1.3" in kubectl("version")
    assert kubectl("get", "--raw", "/readyz") == "ok"
    assert "FIELD: labels <map[string]string>" in kubectl("explain", "deployment.metadata.labels")
    assert "containers" in kubectl("explain", "pod.spec")


def test_a_kind_comes_by_its_definition(kubectl: Any) -> None:
    """A CustomResourceDefinition makes its kind usable by the next command; deleting it removes the kind."""
    plural = f"kinds{kubectl.namespace.removeprefix('test-')}"
    kind = plural.capitalize()
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.test.example"},
        "spec": {
            "group": "test.example",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [version],
        },
    }
    kubectl("apply", "-f", "-", stdin=definition)
    kubectl("wait", f"crd/{plural}.test.example", "--for=condition=Established", "--timeout=5s")
    thing = {"apiVersion": "test.example/v1", "kind": kind, "metadata": {"name": "x"}, "spec": {"n": 1}}
    kubectl("apply", "-f", "-", stdin=thing)
    assert kubectl("get", plural).split()[:3] == ["NAME", "AGE", "x"]
    assert "deleted" in kubectl("delete", "crd", f"{plural}.test.example")
    assert kubectl.run("get", "--raw", f"/apis/test.example/v1/{plural}").returncode == 1


def test_events_are_described_with_their_object(kubectl: Any, model_route: Any) -> None:
    """An Event about an object shows up in `describe` and in `events`."""
    kubectl("apply", "-f", "-", stdin=model_route)
    about = kubectl.get("mr", "chat")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "chat."},
        "involvedObject": {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "name": "chat",
            "namespace": kubectl.namespace,
            "uid": about["metadata"]["uid"],
        },
        "type": "Warning",
        "reason": "TargetMissing",
        "message": "ModelServer chat does not exist",
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
        "source": {"component": "test"},
    }
    kubectl("create", "-f", "-", stdin=event)
    assert "TargetMissing" in kubectl("describe", "mr", "chat")
    assert kubectl("get", "events").split()[:6] == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert "modelroute/chat" in kubectl("get", "events")
    assert "TargetMissing" in kubectl("events", "--for", "modelroute/chat")


def test_rollout_status_follows_the_deployment(kubectl: Any, deployment: Any) -> None:
    """`rollout status` ends when the status says that all replicas are new and available."""
    kubectl("apply", "-f", "-", stdin=deployment)
    following = kubectl.start("rollout", "status", "deployment", "chat", "--timeout=10s")
    assert following.stdout.readline().startswith("Waiting for deployment")
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    status = {"status": dict.fromkeys(counts, 2) | {"observedGeneration": 1}}
    patch = ("--subresource=status", "--type=merge", "-p", json.dumps(status))
    kubectl("patch", "deployment", "chat", *patch)
    assert following.stdout.read().endswith('deployment "chat" successfully rolled out\n')
    assert kubectl("get", "deploy", "chat").split()[6:9] == ["2/2", "2", "2"]


def test_logs_come_from_the_node_of_the_pod(kubectl: Any, pod: Any) -> None:
    """`logs` prints what the node has, with the options that were given."""
    asked = []

    class Node(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello from the engine\n")

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Node) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        name = f"node-{kubectl.namespace}"
        meta = {"name": name, "annotations": {"headgate.dev/log-endpoint": url}}
        pod["spec"]["nodeName"] = name
        kubectl("apply", "-f", "-", stdin=[{"apiVersion": "v1", "kind": "Node", "metadata": meta}, pod])
        assert kubectl("logs", "one", "--tail=5") == "hello from the engine\n"
        server.shutdown()
        serving.join()
    assert asked == [f"/logs/{kubectl.namespace}/one/engine?tailLines=5"]


def test_a_pod_on_a_node_goes_when_its_node_says_so(kubectl: Any, pod: Any) -> None:
    """`delete pod` waits for the node, which ends it by a delete without grace."""
    pod["spec"]["nodeName"] = "somewhere"
    kubectl("apply", "-f", "-", stdin=pod)
    deleting = kubectl.start("delete", "pod", "one")
    assert deleting.stdout.readline().startswith('pod "one" deleted')
    assert kubectl("get", "pod", "one").split()[7] == "Terminating"
    kubectl("delete", "pod", "one", "--grace-period=0", "--force")
    assert deleting.wait(10) == 0


def test_dry_run_and_diff_store_nothing(kubectl: Any, model_route: Any) -> None:
    """The server checks and shows what would be, and keeps what is."""
    assert "created (server dry run)" in kubectl("create", "-f", "-", "--dry-run=server", stdin=model_route)
    assert kubectl.run("get", "mr", "chat").returncode == 1
    kubectl("apply", "-f", "-", stdin=model_route)
    model_route["spec"]["rules"][0]["targetModels"][0]["weight"] = 9
    difference = kubectl.run("diff", "-f", "-", stdin=model_route)
    assert (difference.returncode, "+      weight: 9" in difference.stdout) == (1, True)
