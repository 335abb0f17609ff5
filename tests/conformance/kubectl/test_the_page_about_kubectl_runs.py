"""The tour of docs/kubectl.md, as it is written there."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.kubectl

PAGE = Path(__file__).parents[3] / "docs" / "kubectl.md"


def test_the_tour_runs(kubectl: Any, tmp_path: Path) -> None:
    """Every command of it succeeds, with the kubectl that is on the path."""
    tour = re.search(r"^```bash\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert tour
    (tmp_path / "kubectl").symlink_to(kubectl.binary)
    config = yaml.safe_load(kubectl.kubeconfig.read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = kubectl.namespace
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    environment = os.environ | {
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
        "KUBECACHEDIR": str(kubectl.cache),
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail"],
        input=tour[1],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "modelroute.networking.volcano.sh/tour created" in done.stdout
    assert "modelServerName\t<string>" in done.stdout
    assert done.stdout.endswith('modelserver.networking.volcano.sh "tour" deleted\n')
