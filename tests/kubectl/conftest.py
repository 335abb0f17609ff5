"""Real kubectl, in all versions that are here, against a real server process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

VERSIONS = ("1.29", "1.30", "1.31", "1.32", "1.33")
HOW_TO_GET_IT = (
    "these tests need kubectl 1.29 or newer. Install it (https://kubernetes.io/docs/tasks/tools/, or your "
    "system's package manager), or point HEADGATE_KUBECTL at one."
)


def binaries() -> dict[str, str]:
    """kubectl binaries by name: HEADGATE_KUBECTL, or that of PATH with its versioned siblings."""
    if chosen := os.environ.get("HEADGATE_KUBECTL"):
        return {"chosen": chosen}
    if (found := shutil.which("kubectl")) is None:
        return {}
    beside = Path(found).resolve().parent
    versioned = {version: beside / f"kubectl.{version}" for version in VERSIONS}
    present = {version: str(path) for version, path in versioned.items() if path.exists()}
    return present or {"path": found}


BINARIES = binaries()


@dataclass
class Kubectl:
    """One kubectl binary with a namespace of its own."""

    binary: str
    kubeconfig: Path
    cache: Path
    namespace: str
    background: list[subprocess.Popen[str]] = field(default_factory=list)

    def command(self, *arguments: str) -> list[str]:
        flags = ["--kubeconfig", str(self.kubeconfig), "--cache-dir", str(self.cache)]
        return [self.binary, *flags, "--namespace", self.namespace, *arguments]

    def run(self, *arguments: str, stdin: Any = None) -> subprocess.CompletedProcess[str]:
        """Runs a command whatever becomes of it; `stdin` is text, or objects to send as YAML."""
        text = stdin if stdin is None or isinstance(stdin, str) else manifest(stdin)
        return subprocess.run(
            self.command(*arguments), input=text, capture_output=True, text=True, timeout=20, check=False
        )

    def __call__(self, *arguments: str, stdin: Any = None) -> str:
        """The output of a command that must succeed."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def get(self, *arguments: str) -> Any:
        return msgspec.json.decode(self("get", *arguments, "-o", "json"))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A command that goes on; it is stopped after the test."""
        process = subprocess.Popen(
            self.command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.background.append(process)
        return process

    def close(self) -> None:
        for process in self.background:
            process.kill()
            process.communicate()


def manifest(objects: Any) -> str:
    return yaml.safe_dump_all(objects if isinstance(objects, list) else [objects])


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a server process that lives as long as the tests."""
    state = tmp_path_factory.mktemp("apiserver")
    command = "from headgate.cli.apiserver import apiserver; apiserver()"
    arguments = [sys.executable, "-c", command, "--state", str(state), "--port", "0"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline().startswith("API server ready")
    yield state / "kubeconfig"
    process.terminate()
    assert process.wait(10) == 0
    process.stdout.close()


def _kubectl(version: str, kubeconfig: Path, cache: Path) -> Kubectl:
    if version not in BINARIES:
        pytest.fail(f"kubectl {version} is not here: {HOW_TO_GET_IT}")
    made = Kubectl(BINARIES[version], kubeconfig, cache, f"test-{uuid.uuid4().hex[:8]}")
    made(
        "apply", "--validate=false", "-f", "-",
        stdin={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": made.namespace}},
    )  # fmt: skip
    return made


@pytest.fixture(params=list(BINARIES) or ["any"])
def every_kubectl(request: pytest.FixtureRequest, kubeconfig: Path, tmp_path: Path) -> Iterator[Kubectl]:
    """Each kubectl version in turn, in a namespace of its own."""
    made = _kubectl(request.param, kubeconfig, tmp_path / "cache")
    yield made
    made.close()


@pytest.fixture
def kubectl(kubeconfig: Path, tmp_path: Path) -> Iterator[Kubectl]:
    """The newest kubectl, in a namespace of its own."""
    made = _kubectl(list(BINARIES)[-1] if BINARIES else "any", kubeconfig, tmp_path / "cache")
    yield made
    made.close()


@pytest.fixture
def model_route() -> Any:
    return {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelRoute",
        "metadata": {"name": "chat"},
        "spec": {
            "modelName": "chat",
            "rules": [{"name": "all", "targetModels": [{"modelServerName": "chat", "weight": 60}]}],
        },
    }


@pytest.fixture
def model_server() -> Any:
    return {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelServer",
        "metadata": {"name": "chat"},
        "spec": {
            "inferenceEngine": "vLLM",
            "model": "m",
            "workloadSelector": {"matchLabels": {"app": "chat"}},
            "workloadPort": {"port": 8000},
        },
    }


@pytest.fixture
def deployment() -> Any:
    labels = {"app": "chat"}
    container = {"name": "engine", "image": "sim:1", "env": [{"name": "A", "value": "1"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


@pytest.fixture
def pod() -> Any:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "one", "labels": {"app": "chat"}},
        "spec": {"containers": [{"name": "engine", "image": "sim:1"}]},
    }
