"""`headgate import` reads a cluster with the groups and versions of other projects, with a read-only role."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from headgate.cli import main

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "migration"
PAGE = ROOT / "docs" / "cli.md"
ACCOUNT = "importer"

KINDS = [
    ("networking.serving.volcano.sh", "v1alpha1", "ModelRoute"),
    ("networking.serving.volcano.sh", "v1alpha1", "ModelServer"),
    ("workload.serving.volcano.sh", "v1alpha1", "ModelServing"),
    ("workload.serving.volcano.sh", "v1alpha1", "AutoscalingPolicy"),
    ("inference.networking.x-k8s.io", "v1alpha2", "InferencePool"),
    ("inference.networking.x-k8s.io", "v1alpha2", "InferenceModel"),
    ("inference.networking.k8s.io", "v1", "InferencePool"),
    ("llm-d.ai", "v1alpha2", "InferenceObjective"),
    ("llmd.ai", "v1alpha1", "VariantAutoscaling"),
    ("gateway.networking.k8s.io", "v1", "HTTPRoute"),
]
"""Of the examples; no cluster has all of them, and this one has none of Headgate's own."""


def role() -> str:
    """The role that the page has."""
    blocks: list[str] = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    return next(block for block in blocks if "kind: ClusterRole" in block)


@pytest.fixture(scope="module")
def foreign(bare_cluster, tmp_path_factory) -> tuple[Any, Path]:
    """A cluster with the examples, and the kubeconfig of an account with the role."""
    directory = tmp_path_factory.mktemp("foreign")
    bare_cluster.define_loosely(*KINDS)
    bare_cluster.kubectl("create", "namespace", "llm")
    bare_cluster.kubectl("apply", "-f", EXAMPLES)
    bare_cluster.kubectl("create", "serviceaccount", ACCOUNT, "-n", "llm")
    bare_cluster.kubectl("apply", "-f", "-", text=role())
    name = yaml.safe_load(role())["metadata"]["name"]
    bound = [f"--clusterrole={name}", f"--serviceaccount=llm:{ACCOUNT}"]
    bare_cluster.kubectl("create", "clusterrolebinding", name, *bound)
    return bare_cluster, bare_cluster.kubeconfig_of(ACCOUNT, "llm", directory)


def run(kubeconfig: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["import", "--kubeconfig", str(kubeconfig), *words])


def outcomes(found: dict[str, Any]) -> dict[str, str]:
    return {f"{each['api_version']} {each['object']}": each["outcome"] for each in found["objects"]}


def test_all_kinds_are_read_with_the_role_of_the_page(foreign, eventually):
    """And nothing else is needed: no kind is left unread."""
    _, kubeconfig = foreign
    eventually(lambda: not json.loads(run(kubeconfig, "-A", "-o", "json").stdout)["unread"])
    result = run(kubeconfig, "-A", "-o", "json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert outcomes(found) == {
        "networking.serving.volcano.sh/v1alpha1 ModelRoute llm/llama": "converted",
        "networking.serving.volcano.sh/v1alpha1 ModelServer llm/llama": "converted",
        "workload.serving.volcano.sh/v1alpha1 AutoscalingPolicy llm/llama": "converted",
        "workload.serving.volcano.sh/v1alpha1 ModelServing llm/llama": "not-served",
        "inference.networking.x-k8s.io/v1alpha2 InferencePool llm/llama": "converted",
        "inference.networking.x-k8s.io/v1alpha2 InferenceModel llm/chat": "converted",
        "inference.networking.k8s.io/v1 InferencePool llm/qwen": "as-is",
        "llm-d.ai/v1alpha2 InferenceObjective llm/batch": "converted",
        "gateway.networking.k8s.io/v1 HTTPRoute llm/qwen": "not-served",
        "llmd.ai/v1alpha1 VariantAutoscaling llm/llama-a100": "converted",
        "llmd.ai/v1alpha1 VariantAutoscaling llm/llama-l40s": "refused",
        "autoscaling/v2 HorizontalPodAutoscaler llm/llama-a100": "not-served",
    }
    assert {each["name"] for each in found["names"]} == {"llama", "chat"}


def test_a_kind_that_the_cluster_does_not_have_is_told(foreign):
    """Without an effect on the others, or on the exit code."""
    _, kubeconfig = foreign
    found = json.loads(run(kubeconfig, "-o", "json").stdout)
    assert "ModelRoute.networking.volcano.sh" in found["absent_kinds"]
    assert "InferencePool.inference.networking.x-k8s.io" not in found["absent_kinds"]
    assert "ModelServer.networking.volcano.sh" in run(kubeconfig).stdout


def test_a_kind_that_may_not_be_listed_stops_no_other(foreign, tmp_path, eventually):
    """It is named, and the exit code says that not everything is known to be served."""
    cluster, _ = foreign
    cluster.kubectl("create", "serviceaccount", "some", "-n", "llm")
    rights = ["--verb=list", "--resource=modelservers.networking.serving.volcano.sh"]
    cluster.kubectl("create", "role", "some", "-n", "llm", *rights)
    cluster.kubectl("create", "rolebinding", "some", "-n", "llm", "--role=some", "--serviceaccount=llm:some")
    kubeconfig = cluster.kubeconfig_of("some", "llm", tmp_path)
    eventually(lambda: json.loads(run(kubeconfig, "-o", "json").stdout)["objects"])
    result = run(kubeconfig, "-o", "json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert list(outcomes(found)) == ["networking.serving.volcano.sh/v1alpha1 ModelServer llm/llama"]
    whys = {each["what"]: each["why"] for each in found["unread"]}
    assert "cannot list resource" in whys["ModelRoute of networking.serving.volcano.sh/v1alpha1"]
    assert "Pod in namespace llm" in whys


def test_a_namespace_that_does_not_exist_is_an_error(foreign):
    """One without objects is not; nothing is known of it without the right to read namespaces."""
    cluster, kubeconfig = foreign
    result = run(kubeconfig, "-n", "lm")
    assert result.exit_code == 1
    assert result.output.startswith('Error: namespace "lm" does not exist in https://')
    assert run(kubeconfig, "-n", "kube-public").exit_code == 0
    cluster.kubectl("create", "serviceaccount", "lister", "-n", "llm")
    rights = ["--clusterrole=headgate-import", "--serviceaccount=llm:lister"]
    cluster.kubectl("create", "rolebinding", "lister", "-n", "llm", *rights)
    lister = cluster.kubeconfig_of("lister", "llm", kubeconfig.parent)
    result = run(lister, "-n", "lm")
    assert result.exit_code == 1
    assert "cannot list resource" in result.output


def test_what_is_written_is_served_by_headgate(foreign, cluster, node, new_address, tmp_path, eventually):
    """Pods of the cluster become endpoints; the manifests are accepted, and an import of them is as it is."""
    _, kubeconfig = foreign
    out = tmp_path / "out"
    assert run(kubeconfig, "-A", "--write", str(out)).exit_code == 1
    namespace = "llm"
    cluster.kubectl("create", "namespace", namespace)
    try:
        told = cluster.kubectl("apply", "--validate=strict", "-f", out)
        assert "modelroute.networking.volcano.sh/llama created" in told
        labels = {"modelserving.volcano.sh/name": "llama"}
        deployment = node.deployment("llama", 1)
        deployment["spec"]["selector"]["matchLabels"] = labels
        deployment["spec"]["template"]["metadata"]["labels"] = labels
        cluster.apply(deployment, namespace=namespace)
        [pod] = eventually(lambda: node.scheduled(namespace))
        address = new_address()
        node.run(pod, namespace, address)
        found = json.loads(run(cluster.kubeconfig, "-n", namespace, "-o", "json").stdout)
        assert {each["outcome"] for each in found["objects"]} == {"as-is"}
        pools = {each["pool"]: each for each in found["pools"]}
        endpoints = pools["ModelServer llm/llama"]["endpoints"]
        assert [each["address"] for each in endpoints] == [f"{address}:8000"]
    finally:
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")


def test_nothing_is_written_to_the_cluster(foreign):
    """The audit log has lists and discovery of the account, and nothing else."""
    cluster, kubeconfig = foreign
    run(kubeconfig, "-A")
    user = f"system:serviceaccount:llm:{ACCOUNT}"
    events = [json.loads(line) for line in (cluster.state / "audit.log").read_text().splitlines()]
    verbs = {each["verb"] for each in events if each["user"]["username"] == user}
    assert verbs == {"list", "get"}
    got = {
        each["requestURI"] for each in events if each["user"]["username"] == user and each["verb"] == "get"
    }
    paths = {uri.partition("?")[0] for uri in got}
    assert {path for path in paths if not path.startswith("/api/v1/namespaces/")} <= {"/api", "/apis"}
