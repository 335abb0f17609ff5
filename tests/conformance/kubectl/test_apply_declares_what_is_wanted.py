"""`kubectl apply`, client-side and server-side, `diff`, and what both store about themselves."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

pytestmark = pytest.mark.kubectl

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
REVIEW = """\
Please review the fields above--they currently have other managers. Here
are the ways you can resolve this warning:
* If you intend to manage all of these fields, please re-run the apply
  command with the `--force-conflicts` flag.
* If you do not intend to manage all of the fields, please edit your
  manifest to remove references to the fields that should keep their
  current managers.
* You may co-own fields by updating your manifest to match the existing
  value; in this case, you'll become the manager if the other manager(s)
  stop managing the field (remove it from their configuration).
See https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts
"""


@pytest.fixture
def config() -> Any:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "labels": {"suite": "apply"}},
        "data": {"a": "1", "b": "2"},
    }


def test_apply_creates_configures_and_leaves_alone(kubectl: Any, config: Any, gate: Any) -> None:
    """Created, unchanged, configured; a field that is left out goes, others' fields stay."""
    both = [config, gate]
    created = "configmap/c created\ngate.conformance.headgate.dev/north created\n"
    assert kubectl("apply", "-f", "-", stdin=both) == created
    assert kubectl("apply", "-f", "-", stdin=both) == created.replace("created", "unchanged")
    kubectl("patch", "configmap", "c", "-p", '{"data":{"other":"3"}}')
    kubectl("patch", "gate", "north", "--type=merge", "-p", '{"spec":{"name":"n"}}')
    config["data"] = {"a": "one"}
    del gate["spec"]["replicas"]
    assert kubectl("apply", "-f", "-", stdin=both) == created.replace("created", "configured")
    assert kubectl.get("configmap", "c")["data"] == {"a": "one", "other": "3"}
    assert kubectl.get("gate", "north")["spec"] == {"width": 3, "material": "oak", "name": "n"}


def test_apply_keeps_what_was_applied(kubectl: Any, gate: Any, tmp_path: Any) -> None:
    """`view-last-applied`, `set-last-applied` and `edit-last-applied` read and write the annotation."""
    kubectl("apply", "-f", "-", stdin=gate)
    applied = json.loads(kubectl("apply", "view-last-applied", "gate/north", "-o", "json"))
    assert applied["spec"] == gate["spec"]
    gate["spec"]["width"] = 4
    assert kubectl("apply", "set-last-applied", "-f", "-", stdin=gate) == (
        "gate.conformance.headgate.dev/north configured\n"
    )
    stored = kubectl.get("gate", "north")
    assert json.loads(stored["metadata"]["annotations"][LAST_APPLIED])["spec"]["width"] == 4
    assert stored["spec"]["width"] == 3
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/width: 4/width: 6/' \"$1\"\n")
    editor.chmod(0o700)
    kubectl("apply", "edit-last-applied", "gate/north", KUBE_EDITOR=str(editor))
    assert "width: 6" in kubectl("apply", "view-last-applied", "gate/north")


def test_apply_adopts_what_was_created(kubectl: Any, config: Any) -> None:
    """An object without the annotation is configured with a warning; `create --save-config` spares it."""
    kubectl("create", "-f", "-", stdin=config)
    adopted = kubectl.run("apply", "-f", "-", stdin=config)
    assert (adopted.code, adopted.out) == (0, "configmap/c configured\n")
    assert adopted.err.startswith(f"Warning: resource configmaps/c is missing the {LAST_APPLIED} annotation")
    config["metadata"]["name"] = "saved"
    kubectl("create", "--save-config", "-f", "-", stdin=config)
    assert kubectl("apply", "-f", "-", stdin=config) == "configmap/saved unchanged\n"


def test_a_dry_run_changes_nothing(kubectl: Any, config: Any) -> None:
    """`--dry-run=client` and `=server` say what would be done; the server's has the defaults."""
    assert kubectl("apply", "--dry-run=client", "-f", "-", stdin=config) == (
        "configmap/c created (dry run)\n"
    )
    assert kubectl("apply", "--dry-run=server", "-f", "-", stdin=config) == (
        "configmap/c created (server dry run)\n"
    )
    assert kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=config) == (
        "configmap/c serverside-applied (server dry run)\n"
    )
    assert kubectl.run("get", "configmap", "c").code == 1
    gate = {"apiVersion": "conformance.headgate.dev/v1", "kind": "Gate", "metadata": {"name": "dry"}}
    gate["spec"] = {"width": 1}
    shown = json.loads(kubectl("apply", "--dry-run=server", "-o", "json", "-f", "-", stdin=gate))
    assert shown["spec"] == {"width": 1, "material": "oak"}


def test_validation_is_strict_unless_told_otherwise(kubectl: Any, gate: Any) -> None:
    """Unknown fields: refused, warned of, or dropped in silence, as `--validate` says."""
    gate["spec"]["with"] = 1
    gate["spec"]["boards"] = [{"id": "a", "thick": 2}]
    refused = kubectl.refused("apply", "-f", "-", stdin=gate)
    assert refused == (
        'Error from server (BadRequest): error when creating "STDIN": Gate in version "v1" cannot be '
        "handled as a Gate: strict decoding error: "
        'unknown field "spec.boards[0].thick", unknown field "spec.with"\n'
    )
    warned = kubectl.run("apply", "--validate=warn", "-f", "-", stdin=gate)
    assert (warned.code, warned.out) == (0, "gate.conformance.headgate.dev/north created\n")
    assert warned.err == (
        'Warning: unknown field "spec.boards[0].thick"\nWarning: unknown field "spec.with"\n'
    )
    stored = kubectl.get("gate", "north")["spec"]
    assert "with" not in stored
    assert stored["boards"] == [{"id": "a"}]
    gate["metadata"]["name"] = "south"
    created = "gate.conformance.headgate.dev/south created\n"
    assert kubectl("apply", "--validate=ignore", "-f", "-", stdin=gate) == created
    gate["spec"]["width"] = 9
    patched = kubectl.refused("apply", "-f", "-", stdin=gate)
    assert patched.endswith(
        'strict decoding error: unknown field "spec.boards[0].thick", unknown field "spec.with"\n'
    )


def test_server_side_apply_owns_fields(kubectl: Any, config: Any) -> None:
    """Applied again it is the same object; a field that is left out goes with its owner."""
    applied = "configmap/c serverside-applied\n"
    assert kubectl("apply", "--server-side", "-f", "-", stdin=config) == applied
    before = kubectl.get("configmap", "c")["metadata"]["resourceVersion"]
    assert kubectl("apply", "--server-side", "-f", "-", stdin=config) == applied
    assert kubectl.get("configmap", "c")["metadata"]["resourceVersion"] == before
    del config["data"]["b"]
    assert kubectl("apply", "--server-side", "-f", "-", stdin=config) == applied
    assert kubectl.get("configmap", "c")["data"] == {"a": "1"}


def test_server_side_apply_tells_conflicts(kubectl: Any, config: Any) -> None:
    """A field of another manager is refused with all that can be done; forced, it changes hands."""
    kubectl("apply", "--server-side", "-f", "-", stdin=config)
    other = copy.deepcopy(config)
    other["data"] = {"a": "mine"}
    to_other = ("apply", "--server-side", "--field-manager=other", "-f", "-")
    assert kubectl.refused(*to_other, stdin=other) == (
        'error: Apply failed with 1 conflict: conflict with "kubectl": .data.a\n' + REVIEW
    )
    kubectl("patch", "configmap", "c", "--field-manager=hand", "-p", '{"data":{"a":"2","b":"3"}}')
    other["data"] = {"a": "mine", "b": "mine"}
    assert kubectl.refused(*to_other, stdin=other) == (
        'error: Apply failed with 2 conflicts: conflicts with "hand" using v1:\n- .data.a\n- .data.b\n'
        + REVIEW
    )
    kubectl(*to_other, "--force-conflicts", stdin=other)
    assert kubectl.get("configmap", "c")["data"] == {"a": "mine", "b": "mine"}
    assert kubectl.refused("apply", "--server-side", "-f", "-", stdin=config).startswith(
        'error: Apply failed with 2 conflicts: conflicts with "other":\n- .data.a\n- .data.b\n'
    )


def test_scaling_conflicts_with_a_manifest_that_says_how_many(kubectl: Any, gate: Any) -> None:
    """The replicas that `scale` set belong to the scale subresource's manager."""
    kubectl("apply", "--server-side", "-f", "-", stdin=gate)
    kubectl("scale", "gate", "north", "--replicas=5")
    refused = kubectl.refused("apply", "--server-side", "-f", "-", stdin=gate)
    assert refused.startswith("error: Apply failed with 1 conflict: conflict with ")
    assert ' with subresource "scale" using conformance.headgate.dev/v1' in refused.splitlines()[0]
    assert refused.splitlines()[0].endswith(": .spec.replicas")


def test_client_side_objects_move_to_server_side_apply(kubectl: Any, config: Any) -> None:
    """The fields of client-side apply move over, so one that is then left out goes; lists merge by key."""
    kubectl("apply", "-f", "-", stdin=config)
    kubectl("apply", "--server-side", "-f", "-", stdin=config)
    del config["data"]["b"]
    kubectl("apply", "--server-side", "-f", "-", stdin=config)
    assert kubectl.get("configmap", "c")["data"] == {"a": "1"}


def test_lists_with_keys_have_an_owner_for_each_item(kubectl: Any, gate: Any) -> None:
    """Two managers apply items of one list of a custom kind without touching each other's."""
    gate["spec"]["boards"] = [{"id": "a", "thickness": 1}]
    kubectl("apply", "--server-side", "-f", "-", stdin=gate)
    gate["spec"] = {"width": 3, "boards": [{"id": "b", "thickness": 2}]}
    kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=gate)
    boards = kubectl.get("gate", "north")["spec"]["boards"]
    assert sorted(board["id"] for board in boards) == ["a", "b"]


def test_prune_deletes_what_is_no_longer_applied(kubectl: Any, config: Any) -> None:
    """`--prune` with a label deletes applied objects that the manifests no longer have, and no others."""
    other = copy.deepcopy(config)
    other["metadata"]["name"] = "gone"
    kubectl("apply", "-f", "-", stdin=[config, other])
    pruned = kubectl(
        "apply", "--prune", "-l", "suite=apply", "--prune-allowlist=core/v1/ConfigMap", "-f", "-",
        stdin=config,
    )  # fmt: skip
    assert pruned == "configmap/c unchanged\nconfigmap/gone pruned\n"
    assert kubectl("get", "cm", "-l", "suite=apply", "-o", "name") == "configmap/c\n"


def test_folders_and_kustomizations_are_applied(kubectl: Any, config: Any, tmp_path: Any) -> None:
    """`-f` folder, `-R`, and `-k`, for applying and for deleting."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "one.json").write_text(json.dumps(config))
    config["metadata"]["name"] = "d"
    (tmp_path / "deep" / "two.json").write_text(json.dumps(config))
    assert kubectl("apply", "-f", str(tmp_path)) == "configmap/c created\n"
    assert kubectl("apply", "-R", "-f", str(tmp_path)).splitlines() == [
        "configmap/d created",
        "configmap/c unchanged",
    ]
    (tmp_path / "kustomization.yaml").write_text("namePrefix: pre-\nresources: [one.json]\n")
    assert kubectl("apply", "-k", str(tmp_path)) == "configmap/pre-c created\n"
    assert kubectl("get", "-k", str(tmp_path), "-o", "name") == "configmap/pre-c\n"
    assert kubectl("delete", "-k", str(tmp_path)) == 'configmap "pre-c" deleted\n'


def test_diff_shows_what_apply_would_change(kubectl: Any, config: Any, gate: Any) -> None:
    """Exit code 0 without differences, 1 with them, for both ways of applying."""
    kubectl("apply", "-f", "-", stdin=[config, gate])
    assert kubectl("diff", "-f", "-", stdin=[config, gate]) == ""
    config["data"]["a"] = "9"
    gate["spec"]["width"] = 8
    for how in ((), ("--server-side", "--force-conflicts")):
        differing = kubectl.run("diff", *how, "-f", "-", stdin=[config, gate])
        assert differing.code == 1, differing.err
        lines = differing.out.splitlines()
        for line in ('-  a: "1"', '+  a: "9"', "-  width: 3", "+  width: 8"):
            assert line in lines
    assert kubectl.get("configmap", "c")["data"]["a"] == "1"
