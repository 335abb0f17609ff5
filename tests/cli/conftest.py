"""A real API server in a process of its own, and the commands that talk to it."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headgate.cli import main

Object = dict[str, Any]


@dataclass
class Headgate:
    """The command line against one server, in a namespace of its own."""

    kubeconfig: Path
    namespace: str

    def run(self, verb: str, *arguments: str, stdin: str | None = None) -> Result:
        """Runs a command whatever becomes of it."""
        words = [verb, "--kubeconfig", str(self.kubeconfig), "-n", self.namespace, *arguments]
        return CliRunner().invoke(main, words, input=stdin, catch_exceptions=False)

    def __call__(self, verb: str, *arguments: str, stdin: str | None = None) -> str:
        """The standard output of a command that must succeed."""
        result = self.run(verb, *arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    def object(self, kind: str, name: str) -> Object:
        found: Object = json.loads(self("get", kind, name, "-o", "json"))
        return found


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a server that lives as long as the tests."""
    state = tmp_path_factory.mktemp("apiserver")
    command = "from headgate.cli.apiserver import apiserver; apiserver()"
    arguments = [sys.executable, "-c", command, "--state", str(state), "--port", "0"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline().startswith("API server ready")
    yield state / "kubeconfig"
    process.terminate()
    assert process.wait(60) == 0
    process.stdout.close()


@pytest.fixture
def headgate(kubeconfig: Path) -> Headgate:
    """Commands in a new namespace."""
    made = Headgate(kubeconfig, f"test-{uuid.uuid4().hex[:8]}")
    namespace = f"{{apiVersion: v1, kind: Namespace, metadata: {{name: {made.namespace}}}}}"
    CliRunner().invoke(main, ["apply", "--kubeconfig", str(kubeconfig), "-f", "-"], input=namespace)
    return made


@pytest.fixture
def route() -> Callable[..., str]:
    """Makes the YAML of a ModelRoute to the ModelServer of its name."""

    def make(name: str = "chat", weight: int = 100, labels: str = "{}") -> str:
        return (
            "---\napiVersion: networking.volcano.sh/v1alpha1\nkind: ModelRoute\n"
            f"metadata: {{name: {name}, labels: {labels}}}\nspec:\n  modelName: {name}\n  rules:\n"
            f"  - targetModels:\n    - modelServerName: {name}\n      weight: {weight}\n"
        )

    return make


@pytest.fixture
def config_map() -> str:
    return "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: b}}\n"
