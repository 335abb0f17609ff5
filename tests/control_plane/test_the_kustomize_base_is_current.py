"""deploy/kustomize/base is the chart with its default values, without Helm."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
BASE = ROOT / "deploy" / "kustomize" / "base"


@pytest.fixture
def renderer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kustomize_base", ROOT / "tools" / "kustomize_base.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_its_files_are_rendered_from_the_chart(helm, renderer):
    """`make kustomize-base` renders them."""
    assert {path.name: path.read_text() for path in BASE.iterdir()} == renderer.rendered(str(helm.program))
    picker = renderer.rendered_picker(str(helm.program))
    assert {path.name: path.read_text() for path in renderer.PICKER.iterdir()} == picker


def test_it_is_applied_and_pods_appear(cluster, eventually):
    """The namespace rejects Pods that violate the strictest of Kubernetes' standards."""
    told = cluster.kubectl("apply", "--server-side", "--validate=strict", "-k", BASE)
    assert "Warning" not in told
    eventually(lambda: len(cluster.get("pods", "-n", "headgate-system")["items"]) == 4)
    cluster.kubectl("delete", "-k", BASE)


def test_another_namespace_can_be_chosen(cluster, namespace, tmp_path):
    """All objects follow, and the Lease of the controllers, which their command line names, does too."""
    (tmp_path / "base").symlink_to(BASE)
    overlay = {"resources": ["base"], "namespace": namespace}
    (tmp_path / "kustomization.yaml").write_text(str(overlay))
    text = cluster.kubectl("kustomize", "--load-restrictor=LoadRestrictionsNone", tmp_path)
    assert "headgate-system" not in text
    cluster.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", text=text)
