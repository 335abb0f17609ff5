"""Helm, and the chart as it renders it; `conftest` imports the fixture."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from clusters import TOOL, WAIT_S, Cluster

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "headgate"


@dataclass(frozen=True)
class Helm:
    """One version of Helm. `base` has its files: values, and caches."""

    program: Path
    base: Path

    def run(self, *words: str | Path, cluster: Cluster | None = None, fails: bool = False) -> str:
        """What it prints; asserts that it succeeds, or with `fails` that it does not."""
        homes = {f"HELM_{kind}_HOME": str(self.base / kind) for kind in ("CACHE", "CONFIG", "DATA")}
        kubeconfig = str(cluster.kubeconfig) if cluster else "/dev/null"
        done = subprocess.run(
            [self.program, *words],
            env={"PATH": os.environ["PATH"], "HOME": str(self.base), "KUBECONFIG": kubeconfig, **homes},
            capture_output=True,
            text=True,
            timeout=2 * WAIT_S,
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr if fails else done.stdout

    def values(self, values: dict[str, Any]) -> list[str | Path]:
        """The flag that passes these values."""
        file = self.base / f"{uuid.uuid4().hex}.yaml"
        file.write_text(json.dumps(values))
        return ["--values", file]

    def template(self, values: dict[str, Any], namespace: str = "headgate-system") -> list[dict[str, Any]]:
        """The objects of the chart."""
        text = self.run("template", "headgate", CHART, "--namespace", namespace, *self.values(values))
        return [each for each in yaml.safe_load_all(text) if each]


@pytest.fixture(params=["3", "4"])
def helm(request: pytest.FixtureRequest, tmp_path: Path) -> Helm:
    """Each major version of Helm that is found."""
    return find_helm(request.param, tmp_path)


def find_helm(major: str, base: Path) -> Helm:
    """One of this major version; the test is skipped without one."""
    found = subprocess.run([sys.executable, TOOL, "path-helm"], capture_output=True, text=True, check=True)
    for line in found.stdout.split():
        told = subprocess.run([line, "version", "--short"], capture_output=True, text=True, check=True)
        if told.stdout.startswith(f"v{major}."):
            return Helm(Path(line), base)
    pytest.skip(f"there is no Helm {major}: `make helm` builds it")
