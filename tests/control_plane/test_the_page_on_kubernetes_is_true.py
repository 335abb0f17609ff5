"""The commands of docs/kubernetes.md work as written, one after the other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "kubernetes.md"
NAMESPACE = "headgate-system"
TENANTS = ("team-a", "team-b")


def commands() -> Iterator[str]:
    """Those with a prompt, with their input."""
    for block in re.findall(r"^ *```console\n(.*?)^ *```", PAGE.read_text(), re.M | re.S):
        lines = [line.strip() for line in block.splitlines()]
        for command in "\n".join(lines).removeprefix("$ ").split("\n$ "):
            yield command.replace("\n> ", "\n")


@pytest.fixture
def shell(cluster, helm, tmp_path) -> Callable[[str], subprocess.Popen[str]]:
    """Starts a command in a copy of deploy, for the administrator of the cluster."""
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "helm").symlink_to(helm.program)
    (programs / "kubectl").symlink_to(cluster.programs / "kubectl")
    environ = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(cluster.kubeconfig),
    }

    def start(command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-euc", command],
            cwd=tmp_path,
            env=environ,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    return start


def test_the_commands_work(cluster, shell, lasting_node, new_address):
    ran = list(commands())
    assert [command for command in ran if command.startswith("helm install")]
    for command in ran:
        with shell(command) as process:
            while process.poll() is None:  # as a kubelet would do meanwhile
                _run_pods(cluster, lasting_node, new_address)
                try:
                    process.wait(0.5)
                except subprocess.TimeoutExpired:
                    continue
            assert process.stdout is not None
            output = process.stdout.read()
            assert process.returncode == 0, f"{command}:\n{output}"
            assert "Warning" not in output, f"{command}:\n{output}"
    images = cluster.get("deployment", "headgate-gateway", "-n", NAMESPACE)["spec"]["template"]["spec"]
    assert images["containers"][0]["image"] == "registry.example.com/headgate:0.1.0"
    cluster.kubectl("delete", "-k", ROOT / "deploy" / "kustomize" / "base", "--wait=false")
    cluster.kubectl("delete", "pods", "--all", "-n", NAMESPACE, "--force", "--grace-period=0")
    cluster.kubectl("delete", "namespace", *TENANTS, "--wait=false")
    for name in (NAMESPACE, *TENANTS):
        cluster.kubectl("wait", "--for=delete", f"namespace/{name}", "--timeout=60s")


def _run_pods(cluster: Any, node: Any, new_address: Callable[[], str]) -> None:
    pods = cluster.get("pods", "-n", NAMESPACE, f"--field-selector=spec.nodeName={node.name}")["items"]
    for pod in pods:
        if "podIP" not in pod["status"] and "deletionTimestamp" not in pod["metadata"]:
            node.run(pod["metadata"]["name"], NAMESPACE, new_address())
