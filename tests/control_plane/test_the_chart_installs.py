"""Helm installs, upgrades, rolls back and removes the chart in a real cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "headgate"
EVERYTHING = yaml.safe_load((CHART / "ci" / "everything-values.yaml").read_text())
OF_OTHERS = "monitoring.coreos.com"
"""The group of kinds that this cluster does not have."""


@pytest.fixture
def restricted(cluster, namespace) -> str:
    """A namespace that warns of Pods which violate the strictest of Kubernetes' standards."""
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/warn=restricted")
    return namespace


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["default", "everything"])
@pytest.mark.parametrize("way", [("--server-side",), ("--validate=strict",)], ids=["server-side", "strict"])
def test_the_server_accepts_all_objects(cluster, helm, restricted, values, way):
    """Without warnings: no unknown or duplicate field, and no Pod that is privileged."""
    rendered = [each for each in helm.template(values, restricted) if OF_OTHERS not in each["apiVersion"]]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": rendered})
    told = cluster.kubectl("apply", "--dry-run=server", *way, "-f", "-", text=text)
    assert len(told.splitlines()) == len(rendered)
    assert "Warning" not in told


def test_a_release_is_installed_changed_restored_and_removed(cluster, helm, restricted, eventually):
    """The definitions, and so all objects of users, are not part of it."""
    name = f"headgate-{restricted[-6:]}"  # of cluster roles, too
    place = ("--namespace", restricted)

    def gateway() -> dict[str, Any]:
        return cluster.get("deployment", f"{name}-gateway", *place)["spec"]

    def pods() -> int:
        return len(cluster.get("pods", *place, "-l", f"app.kubernetes.io/instance={name}")["items"])

    told = helm.run("install", name, CHART, *place, cluster=cluster)
    assert f"kubectl rollout status -n {restricted} deployment/{name}-gateway" in told
    assert "-k deploy/crds" not in told  # the cluster has them
    eventually(lambda: pods() == 4)
    installed = gateway()
    assert installed["replicas"] == 2

    live = helm.values({"gateway": {"settings": {"clients": {"keep_alive_s": 5}}}})
    helm.run("upgrade", name, CHART, *place, *live, cluster=cluster)
    assert gateway() == installed
    file = cluster.get("configmap", f"{name}-gateway", *place)["data"]["gateway.yaml"]
    assert yaml.safe_load(file)["clients"] == {"keep_alive_s": 5}

    scaled = helm.values({"gateway": {"replicas": 3, "settings": {"workers": {"count": 2}}}})
    helm.run("upgrade", name, CHART, *place, *scaled, cluster=cluster)
    assert gateway()["replicas"] == 3
    assert gateway()["template"] != installed["template"]
    helm.run("rollback", name, "1", *place, cluster=cluster)
    assert gateway() == installed

    helm.run("uninstall", name, *place, cluster=cluster)
    of_release = ("-l", f"app.kubernetes.io/instance={name}")
    for kind in {each["kind"] for each in helm.template({})}:
        left = cluster.kubectl("get", kind, *place, *of_release)
        assert left.startswith("No resources found"), left
    assert cluster.get("crd", "modelroutes.networking.volcano.sh")


def test_an_upgrade_with_invalid_values_changes_nothing(cluster, helm, restricted):
    name = f"headgate-{restricted[-6:]}"
    place = ("--namespace", restricted)
    helm.run("install", name, CHART, *place, cluster=cluster)
    wrong = helm.values({"gateway": {"settings": {"workers": {"count": 0}}}})
    told = helm.run("upgrade", name, CHART, *place, *wrong, cluster=cluster, fails=True)
    assert "workers" in told
    assert len(json.loads(helm.run("history", name, *place, "-o", "json", cluster=cluster))) == 1
    helm.run("uninstall", name, *place, cluster=cluster)
