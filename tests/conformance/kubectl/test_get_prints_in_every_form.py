"""`kubectl get`: what it prints, selects, sorts and pages."""

from __future__ import annotations

import re
import select
from typing import Any

import msgspec
import pytest

pytestmark = pytest.mark.kubectl

AGE = re.compile(r"\b\d+s(?=\s|$)")


@pytest.fixture
def gates(kubectl: Any, gate: Any) -> Any:
    """kubectl, in a namespace with two gates: north (3 wide, oak) and south (5 wide, steel)."""
    south = gate | {
        "metadata": {"name": "south", "labels": {"river": "rhine"}},
        "spec": {"width": 5, "material": "steel"},
    }
    kubectl("create", "-f", "-", stdin=[gate, south])
    return kubectl


def aged(text: str) -> list[str]:
    """Lines with every age as `0s`, and without the blanks at their ends."""
    return [AGE.sub("0s", line).rstrip() for line in text.splitlines()]


def test_a_table_has_the_printer_columns(gates: Any) -> None:
    """Columns come in the order of the definition; a missing value is blank."""
    assert aged(gates("get", "gates")) == [
        "NAME    WIDTH   STATE   AGE",
        "north   3               0s",
        "south   5               0s",
    ]


def test_wide_has_the_columns_of_lower_priority(gates: Any) -> None:
    """`-o wide` shows columns with a priority above 0 as well, by any of the names of the kind."""
    for name in ("gates", "gate", "gt", "Gate", "gates.conformance.headgate.dev", "waterworks"):
        assert aged(gates("get", name, "-o", "wide")) == [
            "NAME    WIDTH   STATE   MATERIAL   AGE",
            "north   3               oak        0s",
            "south   5               steel      0s",
        ], name


def test_labels_and_kinds_are_shown(gates: Any) -> None:
    """`--show-labels`, `-L`, `--show-kind` and `--no-headers` change the table only."""
    assert aged(gates("get", "gates", "--show-labels"))[:2] == [
        "NAME    WIDTH   STATE   AGE   LABELS",
        "north   3               0s    river=aare",
    ]
    assert aged(gates("get", "gates", "-L", "river"))[2] == "south   5               0s    rhine"
    assert aged(gates("get", "gates", "--show-kind"))[1:] == [
        "gate.conformance.headgate.dev/north   3               0s",
        "gate.conformance.headgate.dev/south   5               0s",
    ]
    assert aged(gates("get", "gates", "--no-headers")) == ["north   3           0s", "south   5           0s"]


def test_all_namespaces_come_with_their_names(gates: Any) -> None:
    """`-A` has a column for the namespace."""
    rows = [line.split() for line in gates("get", "gates", "-A").splitlines()]
    assert rows[0] == ["NAMESPACE", "NAME", "WIDTH", "STATE", "AGE"]
    assert ["NAMESPACE", "north"] in [row[:2] for row in rows]


def test_yaml_is_the_whole_object(gates: Any) -> None:
    """`-o yaml` has defaults and what the server sets, and managed fields when asked."""
    shown = gates("get", "gate", "north", "-o", "yaml")
    for pattern, text in (
        (r'creationTimestamp: "[-\dT:]+Z"', "creationTimestamp: TIME"),
        (r'resourceVersion: "\d+"', "resourceVersion: VERSION"),
        (r"uid: [-0-9a-f]{36}", "uid: UID"),
    ):
        shown, found = re.subn(pattern, text, shown)
        assert found == 1, pattern
    assert shown.splitlines() == [
        "apiVersion: conformance.headgate.dev/v1",
        "kind: Gate",
        "metadata:",
        "  creationTimestamp: TIME",
        "  generation: 1",
        "  labels:",
        "    river: aare",
        "  name: north",
        "  namespace: NAMESPACE",
        "  resourceVersion: VERSION",
        "  uid: UID",
        "spec:",
        "  material: oak",
        "  replicas: 2",
        "  width: 3",
    ]
    managed = gates("get", "gate", "north", "-o", "yaml", "--show-managed-fields")
    assert "manager: kubectl-create" in managed
    assert "f:river: {}" in managed


def test_json_lists_are_lists(gates: Any) -> None:
    """`-o json` of several objects is a List of v1, of one object that object."""
    several = gates.get("gates")
    assert (several["apiVersion"], several["kind"]) == ("v1", "List")
    assert several["metadata"] == {"resourceVersion": ""}
    assert [item["metadata"]["name"] for item in several["items"]] == ["north", "south"]
    assert gates.get("gate", "north") == several["items"][0]
    raw = msgspec.json.decode(
        gates("get", "--raw", f"/apis/conformance.headgate.dev/v1/namespaces/{gates.namespace}/gates")
    )
    assert raw["kind"] == "GateList"
    assert int(raw["metadata"]["resourceVersion"]) > 0


@pytest.mark.parametrize(
    ("output", "printed"),
    [
        ("name", "gate.conformance.headgate.dev/north\ngate.conformance.headgate.dev/south\n"),
        ("jsonpath={.items[*].metadata.name}", "north south"),
        ('jsonpath={range .items[*]}{.metadata.name}={.spec.width}{"\\n"}{end}', "north=3\nsouth=5\n"),
        ('jsonpath={.items[?(@.spec.material=="steel")].metadata.name}', "south"),
        ("jsonpath-as-json={.items[*].spec.width}", "[\n    3,\n    5\n]\n"),
        (
            "custom-columns=NAME:.metadata.name,W:.spec.width,D:.spec.depth",
            "NAME    W     D\nnorth   3     <none>\nsouth   5     <none>\n",
        ),
        ("go-template={{range .items}}{{.metadata.name}}:{{.spec.width}} {{end}}", "north:3 south:5 "),
    ],
)
def test_output_is_shaped_by_templates(gates: Any, output: str, printed: str) -> None:
    """Names, JSONPath, custom columns and Go templates."""
    assert gates("get", "gates", "-o", output) == printed


def test_templates_come_from_files(gates: Any, tmp_path: Any) -> None:
    """`jsonpath-file`, `custom-columns-file` and `go-template-file` read what they print from a file."""
    template = tmp_path / "template"
    for form, text, printed in (
        ("jsonpath-file", "{.items[*].metadata.name}", "north south"),
        ("custom-columns-file", "NAME\n.metadata.name\n", "NAME\nnorth\nsouth\n"),
        ("go-template-file", "{{len .items}}", "2"),
    ):
        template.write_text(text)
        assert gates("get", "gates", "-o", f"{form}={template}") == printed


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        (("-l", "river=aare"), ["north"]),
        (("-l", "river!=aare"), ["south"]),
        (("-l", "river in (aare,rhine),river notin (rhine)"), ["north"]),
        (("-l", "river"), ["north", "south"]),
        (("--field-selector", "metadata.name=south"), ["south"]),
        (("--field-selector", "metadata.name!=south"), ["north"]),
        (("--sort-by", ".metadata.labels.river"), ["north", "south"]),
        (("--sort-by", "{.spec.material}"), ["north", "south"]),
        (("--chunk-size", "1"), ["north", "south"]),
        (("--chunk-size", "0"), ["north", "south"]),
    ],
)
def test_selections(gates: Any, selection: tuple[str, ...], names: list[str]) -> None:
    """By labels, by fields, sorted, and in pages."""
    shown = gates("get", "gates", *selection, "--no-headers").splitlines()
    assert [line.split()[0] for line in shown] == names


def test_nothing_found_is_no_error(gates: Any) -> None:
    """An empty list says so on standard error, with exit code 0."""
    nothing = gates.run("get", "gates", "-l", "!river")
    assert (nothing.code, nothing.out) == (0, "")
    assert nothing.err == "No resources found in NAMESPACE namespace.\n"
    assert gates("get", "gates", "-l", "!river", "-o", "name") == ""


def test_several_kinds_are_told_apart(gates: Any) -> None:
    """Objects of two kinds come as two tables, with the kind in front of each name."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    gates("create", "-f", "-", stdin=config)
    assert aged(gates("get", "gate/north", "configmap/c")) == [
        "NAME                                  WIDTH   STATE   AGE",
        "gate.conformance.headgate.dev/north   3               0s",
        "",
        "NAME          DATA   AGE",
        "configmap/c   1      0s",
    ]
    assert gates("get", "-f", "-", "-o", "name", stdin=config) == "configmap/c\n"


def test_subresources_are_shown(gates: Any) -> None:
    """`--subresource` shows the status as the object, and the scale as wanted and present replicas."""
    status = '{"status":{"state":"open","replicas":1}}'
    gates("patch", "gate", "north", "--subresource=status", "--type=merge", "-p", status)
    assert aged(gates("get", "gate", "north", "--subresource=status"))[1] == "north   3       open    0s"
    assert aged(gates("get", "gate", "north", "--subresource=scale")) == [
        "NAME    DESIRED   AVAILABLE   AGE",
        "north   2         1           0s",
    ]
    scale = msgspec.json.decode(gates("get", "gate", "north", "--subresource=scale", "-o", "json"))
    assert (scale["apiVersion"], scale["kind"]) == ("autoscaling/v1", "Scale")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1})


def test_a_watch_prints_each_change(gates: Any) -> None:
    """`get -w` begins with what there is, and adds a row for every change; deletions as well."""
    watching = gates.start("get", "gates", "-w", "--output-watch-events", "-l", "river=aare")
    assert watching.stdout.readline().split() == ["EVENT", "NAME", "WIDTH", "STATE", "AGE"]
    assert watching.stdout.readline().split()[:3] == ["ADDED", "north", "3"]
    gates("patch", "gate", "north", "--type=merge", "-p", '{"spec":{"width":4}}')
    assert watching.stdout.readline().split()[:3] == ["MODIFIED", "north", "4"]
    gates("label", "gate", "north", "river=rhine", "--overwrite")
    assert watching.stdout.readline().split()[:2] == ["DELETED", "north"]


def test_watch_only_prints_nothing_of_before(gates: Any) -> None:
    """`--watch-only` leaves out what there is already; one object can be watched alone."""
    watching = gates.start("get", "gate", "north", "--watch-only", "-o", "name")
    following = gates.start("get", "gates", "--watch", "--no-headers")
    assert following.stdout.readline().split()[0] == "north"
    assert following.stdout.readline().split()[0] == "south"
    for width in range(6, 60):  # until the watch has begun, which nothing tells, changes go by unseen
        gates("patch", "gate", "north", "--type=merge", "-p", f'{{"spec":{{"width":{width}}}}}')
        if select.select([watching.stdout], [], [], 0.1)[0]:
            break
    assert watching.stdout.readline() == "gate.conformance.headgate.dev/north\n"
    assert following.stdout.readline().split()[:2] == ["north", "6"]
