"""A real API server accepts our definitions, and the examples, without warnings."""

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEFINITIONS = sorted((ROOT / "deploy" / "crds").glob("*.yaml"))

SERVED = {"Established", "NamesAccepted"}
APPROVED = "KubernetesAPIApprovalPolicyConformant"
"""Only of groups under k8s.io, whose definitions must name their approval."""


def _is_manifest(path: Path) -> bool:
    """Settings of the gateway or the simulator have no metadata. Objects to migrate are of other projects."""
    return path.parent.name != "migration" and all(
        "metadata" in document for document in yaml.safe_load_all(path.read_text())
    )


EXAMPLES = sorted(path for path in (ROOT / "examples").rglob("*.yaml") if _is_manifest(path))


@pytest.mark.parametrize("path", DEFINITIONS, ids=[path.stem for path in DEFINITIONS])
def test_a_definition_is_served(cluster, path):
    """Also without the conditions that the API server sets for schemas that it cannot use or publish."""
    found = cluster.get("crd", path.stem)
    conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}
    assert {name for name, status in conditions.items() if status == "True"} - {APPROVED} == SERVED
    names = [version["name"] for version in found["spec"]["versions"] if version["served"]]
    assert names
    for name in names:
        cluster.kubectl("get", f"{found['spec']['names']['plural']}.{name}.{found['spec']['group']}", "-A")


@pytest.mark.parametrize("path", DEFINITIONS, ids=[path.stem for path in DEFINITIONS])
def test_a_definition_causes_no_warning(cluster, path):
    told = cluster.kubectl("apply", "--server-side", "--dry-run=server", "-f", path)
    assert "Warning" not in told


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.parent.name for path in EXAMPLES])
@pytest.mark.parametrize("way", ["--server-side", "--validate=strict"])
def test_an_example_passes_a_dry_run(cluster, path, way):
    manifests = list(yaml.safe_load_all(path.read_text()))
    for each in manifests:
        if each["kind"] == "Namespace":  # a dry run makes none for what is in it
            cluster.apply(each)
    others = [each for each in manifests if each["kind"] != "Namespace"]
    told = cluster.kubectl("apply", way, "--dry-run=server", "-f", "-", text=yaml.safe_dump_all(others))
    assert "Warning" not in told
