"""The commands of the migration pages work as written, in clusters with the objects of the examples."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
REPORT = "headgate import"
"""Exits with 1, because the examples have parts that are not served."""

KTHENA = [
    ("networking.serving.volcano.sh", "v1alpha1", "ModelRoute"),
    ("networking.serving.volcano.sh", "v1alpha1", "ModelServer"),
    ("workload.serving.volcano.sh", "v1alpha1", "ModelServing"),
    ("workload.serving.volcano.sh", "v1alpha1", "AutoscalingPolicy"),
]
GIE = [
    ("inference.networking.x-k8s.io", "v1alpha2", "InferencePool"),
    ("inference.networking.x-k8s.io", "v1alpha2", "InferenceModel"),
    ("inference.networking.k8s.io", "v1", "InferencePool"),
    ("llm-d.ai", "v1alpha2", "InferenceObjective"),
    ("gateway.networking.k8s.io", "v1", "HTTPRoute"),
]
WVA = [("llmd.ai", "v1alpha1", "VariantAutoscaling")]


def commands(page: str) -> list[str]:
    """Those of the section on the move."""
    text = (ROOT / "docs" / page).read_text().partition("## Move")[2].partition("## What to change")[0]
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.M | re.S)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]


def follow(page: str, cluster: Any, directory: Path) -> dict[str, Any]:
    """Runs the commands; returns the report of the cluster afterwards."""
    for name in ("deploy", "examples"):
        shutil.copytree(ROOT / name, directory / name)
    programs = directory / "bin"
    programs.mkdir()
    (programs / "kubectl").symlink_to(cluster.programs / "kubectl")
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {"PATH": path, "HOME": str(directory), "KUBECONFIG": str(cluster.kubeconfig)}

    def run(command: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=directory,
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.returncode, done.stdout if command.startswith(REPORT) else done.stdout + done.stderr

    ran = commands(page)
    assert ran
    for command in ran:
        code, output = run(command)
        assert code == (1 if command.startswith(REPORT) else 0), f"{command}:\n{output}"
        if command.startswith("kubectl apply") and "crds" in command:
            cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    found: dict[str, Any] = json.loads(run(f"{REPORT} -A -o json")[1])
    return found


@pytest.fixture
def with_example(fresh_cluster: Any) -> Any:
    """Makes a cluster with the definitions and the objects of an example."""

    def make(example: str, kinds: list[tuple[str, str, str]]) -> Any:
        fresh_cluster.define_loosely(*kinds)
        fresh_cluster.kubectl("create", "namespace", "llm")
        fresh_cluster.kubectl("apply", "-f", ROOT / "examples" / "migration" / example)
        return fresh_cluster

    return make


def test_kthena(with_example, tmp_path):
    """Both forms are there afterwards; Headgate's are served."""
    found = follow("migrate-from-kthena.md", with_example("kthena.yaml", KTHENA), tmp_path)
    assert [each["name"] for each in found["names"]] == ["llama"]
    outcomes = {(each["api_version"], each["outcome"]) for each in found["objects"]}
    assert ("networking.volcano.sh/v1alpha1", "as-is") in outcomes
    assert ("networking.serving.volcano.sh/v1alpha1", "converted") in outcomes
    assert "refused" not in {outcome for _, outcome in outcomes}


def test_gie_and_llm_d(with_example, tmp_path):
    """Of the objects of v1alpha2, only their successors are left."""
    found = follow("migrate-from-gie-llm-d.md", with_example("gie-llm-d.yaml", GIE), tmp_path)
    assert [each["name"] for each in found["names"]] == ["chat", "qwen"]
    assert {each["reason"] for each in found["troubles"]} == {"NoPodsSelected"}
    assert {each["object"]: each["outcome"] for each in found["objects"]}[
        "InferenceModel llm/chat"
    ] == "as-is"


def test_wva(with_example, tmp_path):
    """Its objects keep the fields that Headgate does not have."""
    cluster = with_example("wva.yaml", WVA)
    found = follow("migrate-from-wva.md", cluster, tmp_path)
    assert {each["outcome"] for each in found["objects"]} == {"converted", "refused", "not-served"}
    assert cluster.get("variantautoscaling", "llama-a100", "-n", "llm")["spec"]["variantCost"] == "40"
    assert cluster.get("crd", "modelroutes.networking.volcano.sh")
