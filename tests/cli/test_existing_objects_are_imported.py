"""`headgate import` with files: what becomes of each object, and what would be served how."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from headgate.cli import main

SERVER = """
apiVersion: GROUP/v1alpha1
kind: ModelServer
metadata: {name: chat, namespace: llm}
spec:
  model: llama
  inferenceEngine: vLLM
  workloadSelector: {matchLabels: {app: chat}}
  workloadPort: {port: 8000}
"""
ROUTE = """
---
apiVersion: GROUP/v1alpha1
kind: ModelRoute
metadata: {name: chat, namespace: llm}
spec:
  modelName: chat
  rules: [{name: all, targetModels: [{modelServerName: chat}]}]
"""
POD = """
---
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: llm, labels: {app: chat}}
spec: {containers: [{name: engine, image: vllm}]}
status: {podIP: ADDRESS, phase: Running, conditions: [{type: Ready, status: "READY"}]}
"""
KTHENA = "networking.serving.volcano.sh"
HEADGATES = "networking.volcano.sh"


def run(text: str, *words: str) -> Result:
    return CliRunner().invoke(main, ["import", "-f", "-", *words], input=text)


def report(text: str, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(text, "-o", "json", *words).stdout)
    return found


def pod(name: str, address: str, ready: str = "True") -> str:
    return POD.replace("NAME", name).replace("ADDRESS", address).replace("READY", ready)


def test_objects_of_headgates_kinds_are_taken_as_they_are() -> None:
    """Exit code 0: everything would be served."""
    result = run((SERVER + ROUTE).replace("GROUP", HEADGATES))
    assert result.exit_code == 0, result.output
    assert (
        "  taken as it is: ModelRoute llm/chat, networking.volcano.sh/v1alpha1 (<stdin>:12)" in result.output
    )
    assert "  model chat\n    ModelRoute llm/chat\n      rule all\n" in result.output
    assert "100% to ModelServer llm/chat, as llama\n" in result.output
    assert "2 objects: 2 taken as it is." in result.output


def test_a_later_group_is_converted_and_served_by_its_pods() -> None:
    """Endpoints are those of the gateway: ready Pods with an address."""
    text = (SERVER + ROUTE).replace("GROUP", KTHENA) + pod("a", "10.0.0.1") + pod("b", "10.0.0.2", "False")
    found = report(text)
    assert found["served"] is True
    assert [each["outcome"] for each in found["objects"]] == ["converted", "converted"]
    assert found["objects"][1]["becomes"] == ["networking.volcano.sh/v1alpha1 ModelRoute llm/chat"]
    pool = found["pools"][0]
    assert [(each["name"], each["address"]) for each in pool["endpoints"]] == [("llm/a", "10.0.0.1:8000")]
    assert pool["absent"] == ["llm/b: is not ready (Running)"]


def test_what_is_not_taken_is_named_with_its_value_and_a_fix() -> None:
    """And the exit code is 1, because requests would be served differently."""
    route = ROUTE.replace("modelName: chat", "modelName: chat\n  parentRefs: [{name: inner}]")
    result = run((SERVER + route).replace("GROUP", KTHENA))
    assert result.exit_code == 1
    assert '    ! spec.parentRefs [{"name": "inner"}]: the route serves requests at every' in result.output
    assert "1 taken with differences that change what is served" in result.output


def test_https_of_kthena_is_told_because_it_takes_effect() -> None:
    server = SERVER.replace("port: 8000", "port: 8000, protocol: https")
    assert report((server + ROUTE).replace("GROUP", KTHENA))["served"] is False
    verified = server.replace("namespace: llm", 'namespace: llm, annotations: {headgate.dev/tls-ca: "ca"}', 1)
    found = report((verified + ROUTE).replace("GROUP", KTHENA))
    assert [each["differences"] for each in found["objects"]] == [[], []]


def test_every_error_of_a_refused_object_is_listed_at_once() -> None:
    """The other objects are not affected."""
    server = SERVER.replace("vLLM", "Triton").replace("port: 8000", "port: 0")
    found = report((server + ROUTE).replace("GROUP", KTHENA))
    refused, taken = found["objects"]
    assert refused["outcome"] == "refused"
    assert [each["path"] for each in refused["errors"]] == ["spec.inferenceEngine", "spec.workloadPort.port"]
    assert taken["outcome"] == "converted"
    assert [(each["object"], each["reason"]) for each in found["troubles"]] == [
        ("ModelRoute llm/chat", "ModelServerNotFound")
    ]


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("workload.serving.volcano.sh/v1alpha1", "ModelServing"),
        ("networking.serving.volcano.sh/v1alpha1", "ExternalModelProvider"),
        ("networking.serving.volcano.sh/v1beta1", "ModelRoute"),
    ],
)
def test_kinds_and_versions_without_a_counterpart_are_not_served(api_version: str, kind: str) -> None:
    found = report(f"{{apiVersion: {api_version}, kind: {kind}, metadata: {{name: a}}, spec: {{}}}}")
    assert [(each["outcome"], each["becomes"]) for each in found["objects"]] == [("not-served", [])]
    assert found["objects"][0]["differences"][0]["fix"]


def test_only_http_routes_to_pools_matter() -> None:
    """Others belong to a Gateway that is none of our business."""
    route = """
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web}
spec: {rules: [{backendRefs: [{kind: KIND, name: x}]}]}
"""
    assert report(route.replace("KIND", "Service"))["objects"] == []
    assert report(route.replace("KIND", "InferencePool"))["objects"][0]["outcome"] == "not-served"


OWN_GATEWAY = """
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: own}
spec: {controllerName: CONTROLLER}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: front, namespace: edge}
spec: {gatewayClassName: own, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: chat, namespace: llm}
spec: {selector: {matchLabels: {app: chat}}, targetPorts: [{number: 8000}]}
"""
ROUTE_TO_POOL = """
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: llm}
spec:
  parentRefs: [{name: front, namespace: edge}]
  rules: [{backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: chat}]}]
"""


@pytest.mark.parametrize(
    ("controller", "status", "outcome", "code"),
    [
        ("headgate.dev/gateway-controller", "", "own-route", 0),
        ("example.com/other", "", "not-served", 1),
        (
            "example.com/other",
            "status: {parents: [{controllerName: headgate.dev/gateway-controller}]}",
            "own-route",
            0,
        ),
        ("example.com/other", "status: {parents: [x, {controllerName: [1]}]}", "not-served", 1),
    ],
)
def test_http_routes_of_headgates_gateways_are_served(
    controller: str, status: str, outcome: str, code: int
) -> None:
    """By the Gateways of the same files, or, as objects of a cluster have it, by their status. Then their
    pools need no model names."""
    result = run(OWN_GATEWAY.replace("CONTROLLER", controller) + ROUTE_TO_POOL + status, "-o", "json")
    found = json.loads(result.stdout)
    route = next(each for each in found["objects"] if each["object"] == "HTTPRoute llm/web")
    assert route["outcome"] == outcome
    assert [each["reason"] for each in found["troubles"]] == (["NoRoute"] if code else [])
    assert result.exit_code == code


def test_routes_of_other_gateways_are_not_served() -> None:
    """Even if a model name leads to their pool: hosts and paths no longer do."""
    named = OWN_GATEWAY.replace("CONTROLLER", "example.com/other").replace(
        "{name: chat, namespace: llm}",
        "{name: chat, namespace: llm, annotations: {headgate.dev/models: '*'}}",
    )
    assert run(named).exit_code == 0
    result = run(named + ROUTE_TO_POOL)
    assert result.exit_code == 1
    assert "! not served: HTTPRoute llm/web" in result.stdout


def test_a_pool_to_which_no_name_leads_is_a_trouble_with_its_fix() -> None:
    """In GIE, an HTTPRoute leads to it; here, a model name."""
    pool = """
apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferencePool
metadata: {name: chat, namespace: llm}
spec: {selector: {app: chat}, targetPortNumber: 8000, extensionRef: {name: picker}}
"""
    trouble = report(pool)["troubles"][0]
    assert (trouble["object"], trouble["reason"]) == ("InferencePool llm/chat", "NoRoute")
    assert "headgate.dev/models" in trouble["message"]


def test_without_pods_the_workloads_are_named() -> None:
    """Files rarely have Pods: a Deployment with the labels of the pool is as good."""
    deployment = """
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: engines, namespace: llm}
spec:
  selector: {matchLabels: {app: chat}}
  template: {metadata: {labels: {app: chat}}, spec: {containers: [{name: a, image: vllm}]}}
"""
    result = run((SERVER + ROUTE).replace("GROUP", HEADGATES) + deployment)
    assert result.exit_code == 0
    assert "      Pods of Deployment llm/engines\n" in result.output
    assert "Left alone: 1 Deployment." in result.output


def test_what_is_there_twice_is_converted_once() -> None:
    """After an import, a cluster has both forms: the second import changes nothing."""
    stored = SERVER.replace("port: 8000", "port: 8000, protocol: http")  # a server sets the default
    both = stored.replace("GROUP", HEADGATES) + "---\n" + SERVER.replace("GROUP", KTHENA)
    found = report(both)
    assert [each["outcome"] for each in found["objects"]] == ["as-is", "converted"]
    assert [each["errors"] for each in found["objects"]] == [[], []]
    other = both.replace("port: 8000", "port: 9000", 1)
    second = report(other)["objects"][1]
    assert (second["outcome"], second["errors"][0]["path"]) == ("refused", "metadata.name")


def test_what_is_written_can_be_imported_again_as_it_is(tmp_path: Path) -> None:
    """Without what a server wrote, and without owners that may be deleted."""
    owned = "uid: abc, ownerReferences: [{apiVersion: v1, kind: A, name: a, uid: abc}], namespace: llm"
    text = (SERVER.replace("namespace: llm", owned) + ROUTE).replace("GROUP", KTHENA)
    out = tmp_path / "out"
    assert run(text, "--write", str(out)).exit_code == 0
    files = sorted(out.iterdir())
    assert [file.name for file in files] == [
        "llm.modelroute.networking.volcano.sh.chat.yaml",
        "llm.modelserver.networking.volcano.sh.chat.yaml",
    ]
    assert yaml.safe_load(files[1].read_text())["metadata"] == {"name": "chat", "namespace": "llm"}
    again = CliRunner().invoke(main, ["import", "-f", str(out), "-o", "json"])
    assert {each["outcome"] for each in json.loads(again.stdout)["objects"]} == {"as-is"}
    refused = run(text, "--write", str(out))
    assert refused.exit_code == 1
    assert "the directory is not empty" in refused.output


def test_only_valid_objects_are_written(tmp_path: Path) -> None:
    """A name cannot lead out of the directory."""
    out = tmp_path / "out"
    for old, new in [
        ("name: chat", 'name: "../../evil"'),
        ("namespace: llm", 'namespace: "../../evil"'),
        ("name: chat", "generateName: chat-"),
    ]:
        text = SERVER.replace(old, new).replace("GROUP", KTHENA)
        assert run(text, "--write", str(out)).exit_code == 1
        assert [path.name for path in tmp_path.rglob("*")] == ["out"]


def test_a_namespace_selects() -> None:
    """Of files, all are read unless -n names one."""
    text = SERVER.replace("GROUP", HEADGATES)
    assert len(report(text)["objects"]) == 1
    assert report(text, "-n", "other")["objects"] == []
    assert len(report(text, "-n", "llm")["objects"]) == 1


def test_yaml_errors_do_not_hide_the_rest() -> None:
    text = SERVER.replace("GROUP", HEADGATES) + "---\na: [\n"
    found = report(text)
    assert len(found["objects"]) == 1
    assert len(found["unread"]) == 1
    assert found["served"] is False


@pytest.mark.parametrize(
    "words",
    [["-n", "a", "-A", "-f", "-"], ["-f", "-", "--context", "x"], ["-f", "no/such/file", "--bad"]],
)
def test_wrong_usage_exits_with_2(words: list[str]) -> None:
    assert CliRunner().invoke(main, ["import", *words], input="").exit_code == 2


def test_the_formats_have_the_same_content() -> None:
    text = (SERVER + ROUTE).replace("GROUP", KTHENA)
    assert yaml.safe_load(run(text, "-o", "yaml").stdout) == report(text)


@pytest.mark.parametrize("content", ["metadata: 1", "metadata: {name: 5}\nspec: []", "spec: {rules: 3}"])
def test_nonsense_is_refused(content: str) -> None:
    found = report(f"apiVersion: {KTHENA}/v1alpha1\nkind: ModelRoute\n{content}\n")
    assert [each["outcome"] for each in found["objects"]] == ["refused"]


def test_metadata_that_is_null_is_not_there() -> None:
    """As in manifests of GIE, whose pools have `labels:` without any."""
    found = report(SERVER.replace("namespace: llm", "namespace: llm, labels: null").replace("GROUP", KTHENA))
    assert found["objects"][0]["outcome"] == "converted"


def test_a_workload_without_metadata_is_no_reason_to_fail() -> None:
    """The rest of its file is reported."""
    for metadata in ("", "metadata: x\n"):
        labels = "spec: {template: {metadata: {labels: {app: chat}}}}\n"
        text = f"---\napiVersion: apps/v1\nkind: Deployment\n{metadata}{labels}"
        result = run(SERVER.replace("GROUP", HEADGATES) + text)
        assert result.exception is None or isinstance(result.exception, SystemExit)
        assert "ModelServer llm/chat" in result.output


def test_long_names_are_written_to_files_of_shorter_ones(tmp_path: Path) -> None:
    """A file's name has at most 255 bytes; namespace and name together may have 316."""
    text = SERVER.replace("GROUP", HEADGATES).replace("namespace: llm", f"namespace: {'n' * 63}")
    names = [f"{'a' * 250}{last}" for last in "bc"]
    manifests = "---".join(text.replace("name: chat", f"name: {name}") for name in names)
    assert run(manifests, "--write", str(tmp_path / "out")).exit_code == 0
    written = [yaml.safe_load(file.read_text()) for file in (tmp_path / "out").iterdir()]
    assert sorted(each["metadata"]["name"] for each in written) == names
