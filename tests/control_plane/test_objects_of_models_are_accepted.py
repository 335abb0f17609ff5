"""A real API server accepts the objects of a Model as they are applied, without warnings."""

import copy
from pathlib import Path

import goldens
import pytest
import yaml

ROOT = Path(__file__).parents[2]
MANAGER = "headgate-model"


def documents(path):
    return list(yaml.safe_load_all(path.read_text()))


def as_pods(child):
    """What LWS's controller makes of a LeaderWorkerSet, where that is not installed."""
    group = child["spec"]["leaderWorkerTemplate"]
    for role in ("leaderTemplate", "workerTemplate"):
        metadata = {**group[role]["metadata"], "name": f"{child['metadata']['name']}-{role.lower()}"}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": group[role]["spec"]}


@pytest.fixture(scope="module")
def defined(cluster):
    cluster.define("-k", ROOT / "deploy" / "crds")
    return cluster


@pytest.mark.parametrize("model", goldens.MODELS, ids=[path.stem for path in goldens.MODELS])
def test_objects_pass_a_dry_run(defined, model):
    """With the types, defaults and rules of a cluster. Their Model passes as well."""
    told = defined.kubectl("apply", "--server-side", "--dry-run=server", "-f", model)
    assert "Warning" not in told
    children = []
    for child in documents(goldens.golden(model)):
        is_group = child["kind"] == "LeaderWorkerSet"
        children += as_pods(child) if is_group else [copy.deepcopy(child)]
    text = "\n---\n".join(yaml.safe_dump(child) for child in children)
    flags = ("--server-side", "--dry-run=server", f"--field-manager={MANAGER}")
    told = defined.kubectl("apply", *flags, "-f", "-", text=text)
    assert "Warning" not in told
    assert len(told.splitlines()) == len(children)
