"""`kubectl patch`, `label`, `annotate`, `edit`, `replace`, `scale` and `set`."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = pytest.mark.kubectl

GATE = "gate.conformance.headgate.dev/north"


@pytest.fixture
def north(kubectl: Any, gate: Any) -> Any:
    """kubectl, in a namespace with the gate `north`."""
    kubectl("create", "-f", "-", stdin=gate)
    return kubectl


@pytest.fixture
def deployed(kubectl: Any) -> Any:
    """kubectl, in a namespace with a Deployment `web` of no replicas."""
    container = {"name": "web", "image": "web:1", "env": [{"name": "A", "value": "1"}]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    }
    kubectl("create", "-f", "-", stdin=deployment)
    return kubectl


def containers(kubectl: Any) -> dict[str, Any]:
    template = kubectl.get("deployment", "web")["spec"]["template"]
    return {container["name"]: container for container in template["spec"]["containers"]}


def test_merge_and_json_patches_change_custom_objects(north: Any) -> None:
    """A merge patch merges and deletes by null; a JSON patch goes by paths; no change is told."""
    merge = '{"spec":{"width":4,"replicas":null}}'
    assert north("patch", "gate", "north", "--type=merge", "-p", merge) == f"{GATE} patched\n"
    assert north("patch", "gate", "north", "--type=merge", "-p", merge) == f"{GATE} patched (no change)\n"
    assert north.get("gate", "north")["spec"] == {"width": 4, "material": "oak"}
    operations = [
        {"op": "test", "path": "/spec/width", "value": 4},
        {"op": "replace", "path": "/spec/width", "value": 5},
        {"op": "add", "path": "/metadata/labels/a~1b", "value": "c"},
        {"op": "remove", "path": "/metadata/labels/river"},
    ]
    assert north("patch", "gate", "north", "--type=json", "-p", json.dumps(operations)) == f"{GATE} patched\n"
    stored = north.get("gate", "north")
    assert (stored["spec"]["width"], stored["metadata"]["labels"]) == (5, {"a/b": "c"})
    assert stored["metadata"]["generation"] == 3
    refused = north.run("patch", "gate", "north", "--type=json", "-p", json.dumps(operations))
    assert refused.code == 1
    assert refused.err.startswith(
        "The request is invalid: the server rejected our request due to an error in our request"
    )


def test_strategic_patches_are_for_built_in_kinds(north: Any) -> None:
    """Custom kinds refuse them with the media types that they take."""
    refused = north.refused("patch", "gate", "north", "-p", '{"spec":{"width":4}}')
    assert refused == (
        "error: application/strategic-merge-patch+json is not supported by conformance.headgate.dev/v1, "
        "Kind=Gate: the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml\n"
    )


def test_strategic_patches_merge_lists_by_their_keys(deployed: Any) -> None:
    """Containers merge by name, their environment by name; directives delete and replace."""
    side = {"name": "side", "image": "side:1"}
    web = {"name": "web", "env": [{"name": "B", "value": "2"}]}
    patch = {"spec": {"template": {"spec": {"containers": [side, web]}}}}
    assert deployed("patch", "deployment", "web", "-p", json.dumps(patch)) == "deployment.apps/web patched\n"
    found = containers(deployed)
    assert found["web"]["image"] == "web:1"
    assert {entry["name"]: entry["value"] for entry in found["web"]["env"]} == {"A": "1", "B": "2"}
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}}
    deployed("patch", "deployment", "web", "-p", json.dumps(patch))
    assert list(containers(deployed)) == ["web"]


def test_patches_of_subresources_change_those_alone(north: Any) -> None:
    """The status is changed by `--subresource=status` only, and that does not count as a generation."""
    status = '{"spec":{"width":9},"status":{"state":"open"}}'
    north("patch", "gate", "north", "--type=merge", "--subresource=status", "-p", status)
    stored = north.get("gate", "north")
    assert (stored["status"], stored["spec"]["width"]) == ({"state": "open"}, 3)
    assert stored["metadata"]["generation"] == 1
    shut = '{"status":{"state":"shut"}}'
    assert north("patch", "gate", "north", "--type=merge", "-p", shut) == f"{GATE} patched (no change)\n"
    north("patch", "gate", "north", "--subresource=scale", "--type=merge", "-p", '{"spec":{"replicas":7}}')
    assert north.get("gate", "north")["spec"]["replicas"] == 7


def test_patches_come_from_files_and_run_dry(north: Any, tmp_path: Any) -> None:
    """`--patch-file` in YAML; `--dry-run=server` stores nothing; `-o` prints the outcome."""
    file = tmp_path / "patch.yaml"
    file.write_text("spec:\n  width: 6\n")
    arguments = ("patch", "gate", "north", "--type=merge", f"--patch-file={file}")
    assert north(*arguments, "--dry-run=server", "-o", "jsonpath={.spec.width}") == "6"
    assert north.get("gate", "north")["spec"]["width"] == 3
    assert north(*arguments, "-o", "jsonpath={.spec.width}") == "6"


def test_labels_and_annotations_are_set_and_taken_off(north: Any) -> None:
    """What is there already needs `--overwrite`; what is to go has a minus."""
    assert north("label", "gate", "north", "tier=gold") == f"{GATE} labeled\n"
    assert north("label", "gate", "north", "tier=gold") == f"{GATE} not labeled\n"
    refused = north.refused("label", "gate", "north", "tier=tin")
    assert refused == "error: 'tier' already has a value (gold), and --overwrite is false\n"
    assert north("label", "gate", "north", "tier=tin", "--overwrite") == f"{GATE} labeled\n"
    assert north("label", "gates", "--all", "all=yes") == f"{GATE} labeled\n"
    assert sorted(north("label", "gate", "north", "--list").splitlines()) == [
        "all=yes", "river=aare", "tier=tin",
    ]  # fmt: skip
    assert north("label", "gate", "north", "tier-") == f"{GATE} unlabeled\n"
    assert north("annotate", "gate", "north", "note=a b") == f"{GATE} annotated\n"
    assert north("annotate", "gates", "-l", "river=aare", "note=c", "--overwrite") == f"{GATE} annotated\n"
    assert north.get("gate", "north")["metadata"]["annotations"] == {"note": "c"}
    assert north("annotate", "gate", "north", "note-") == f"{GATE} annotated\n"
    assert "annotations" not in north.get("gate", "north")["metadata"]
    stale = north.run("label", "gate", "north", "x=y", "--resource-version=1")
    assert stale.code == 1
    assert stale.err == (
        "Error from server (Conflict): Operation cannot be fulfilled on gates.conformance.headgate.dev "
        '"north": the object has been modified; please apply your changes to the latest version and '
        "try again\n"
    )


def test_a_wrong_label_is_refused(north: Any) -> None:
    """The client checks its shape."""
    refused = north.refused("label", "gate", "north", "tier=not a label")
    assert refused.startswith('error: invalid label value: "tier=not a label": a valid label must be ')


def test_an_edit_changes_the_object(north: Any, tmp_path: Any) -> None:
    """`edit` sends what the editor left; nothing if nothing changed; what is refused comes again."""
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "$EXPRESSION" "$1"\n')
    editor.chmod(0o700)

    def edit(expression: str, *arguments: str) -> Any:
        variables = {"KUBE_EDITOR": str(editor), "EXPRESSION": expression, "TMPDIR": str(tmp_path)}
        return north.run("edit", *arguments, "gate", "north", **variables)

    assert edit("s/width: 3/width: 4/").out == f"{GATE} edited\n"
    assert north.get("gate", "north")["spec"]["width"] == 4
    untouched = edit("s/nothing/at all/")
    assert (untouched.code, untouched.out + untouched.err) == (0, "Edit cancelled, no changes made.\n")
    assert edit("s/spec:/status: {state: open}\\nspec:/", "--subresource=status").out == f"{GATE} edited\n"
    assert north.get("gate", "north")["status"] == {"state": "open"}
    refused = edit("s/width: .*/width: 101/")
    assert refused.code == 1
    assert refused.err.startswith('error: gates.conformance.headgate.dev "north" is invalid\n')
    assert refused.err.endswith("error: Edit cancelled, no valid changes were saved.\n")


def test_a_replace_takes_the_whole_object(north: Any, gate: Any) -> None:
    """Fields that are left out go; `--force` deletes and creates; an old version is refused."""
    gate["spec"] = {"width": 7}
    assert north("replace", "-f", "-", stdin=gate) == f"{GATE} replaced\n"
    stored = north.get("gate", "north")
    assert stored["spec"] == {"width": 7, "material": "oak"}
    old = gate | {"metadata": {"name": "north", "resourceVersion": stored["metadata"]["resourceVersion"]}}
    north("replace", "-f", "-", stdin=gate | {"spec": {"width": 8}})
    refused = north.refused("replace", "-f", "-", stdin=old)
    assert refused == (
        'Error from server (Conflict): error when replacing "STDIN": Operation cannot be fulfilled on '
        'gates.conformance.headgate.dev "north": the object has been modified; please apply your changes '
        "to the latest version and try again\n"
    )
    assert north("replace", "--force", "-f", "-", stdin=gate) == (
        f'gate.conformance.headgate.dev "north" deleted\n{GATE} replaced\n'
    )
    assert north.get("gate", "north")["metadata"]["uid"] != stored["metadata"]["uid"]
    status = gate | {"status": {"state": "open"}}
    north("replace", "--subresource=status", "-f", "-", stdin=status)
    assert north.get("gate", "north")["status"] == {"state": "open"}


def test_scale_sets_replicas_under_its_conditions(north: Any) -> None:
    """By the scale subresource, if the current number is the expected one."""
    assert north("scale", "gate", "north", "--replicas=3") == f"{GATE} scaled\n"
    assert north("scale", "gate", "north", "--replicas=4", "--current-replicas=3") == f"{GATE} scaled\n"
    refused = north.refused("scale", "gate", "north", "--replicas=5", "--current-replicas=9")
    assert refused == "error: Expected replicas to be 9, was 4\n"
    assert north.get("gate", "north")["spec"]["replicas"] == 4
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    north("create", "-f", "-", stdin=config)
    assert north.refused("scale", "configmap", "c", "--replicas=1") == (
        "Error from server (NotFound): the server could not find the requested resource\n"
    )


def test_set_changes_the_template(deployed: Any) -> None:
    """`set image`, `env`, `resources`, `serviceaccount`: what they name, and nothing else."""
    for change, told in (
        (("image", "deployment/web", "web=web:2"), "image"),
        (("env", "deployment/web", "A=2", "B=3"), "env"),
        (("resources", "deployment/web", "--limits=cpu=1,memory=1Gi"), "resource requirements"),
        (("serviceaccount", "deployment", "web", "robot"), "serviceaccount"),
    ):
        assert deployed("set", *change) == f"deployment.apps/web {told} updated\n"
    web = containers(deployed)["web"]
    assert web["image"] == "web:2"
    assert web["env"] == [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}]
    assert web["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}
    stored = deployed.get("deployment", "web")
    assert stored["spec"]["template"]["spec"]["serviceAccountName"] == "robot"
    assert deployed("set", "env", "deployment/web", "--list") == (
        "# Deployment web, container web\nA=2\nB=3\n"
    )
    assert deployed("set", "env", "deployment/web", "A-") == "deployment.apps/web env updated\n"
    assert containers(deployed)["web"]["env"] == [{"name": "B", "value": "3"}]
