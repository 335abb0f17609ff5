"""InferencePool, InferenceModel and InferenceObjective: what their schemas demand beyond one field."""

from __future__ import annotations

from typing import Any

import pytest

from headgate import api
from headgate.kubeschema import structural

Object = dict[str, Any]

SCHEMAS = {
    (d["spec"]["names"]["kind"], d["spec"]["versions"][0]["name"]): d["spec"]["versions"][0]["schema"][
        "openAPIV3Schema"
    ]
    for d in api.custom_definitions()
}


def judged(kind: str, version: str, **parts: Any) -> tuple[Object, list[str]]:
    """The object as it would be stored, and what is wrong with it."""
    schema = SCHEMAS[kind, version]
    obj: Object = {"apiVersion": "any", "kind": kind, "metadata": {"name": "x"}, **parts}
    structural.prune(schema, obj)
    structural.default(schema, obj)
    return obj, [f"{error.field}: {error.detail}" for error in structural.validate(schema, obj)]


def stable_pool(**spec: Any) -> list[str]:
    valid = {"selector": {"matchLabels": {"app": "vllm"}}, "targetPorts": [{"number": 8000}]}
    return judged("InferencePool", "v1", spec=valid | spec)[1]


@pytest.mark.parametrize(
    ("picker", "refused"),
    [
        ({"name": "epp", "kind": "Service", "port": {"number": 9002}}, False),
        ({"name": "epp"}, True),
        ({"name": "epp", "kind": "Service"}, True),
        ({"name": "epp", "kind": "Picker", "group": "example.com"}, False),
    ],
)
def test_a_picker_that_is_a_service_must_have_a_port(picker: Object, refused: bool) -> None:
    """Without a kind it is a Service too."""
    errors = stable_pool(endpointPickerRef=picker)
    complaint = "port is required when kind is 'Service' or unspecified (defaults to 'Service')"
    assert errors == ([f"spec.endpointPickerRef: {complaint}"] if refused else [])


def test_ports_of_a_pool_are_unique() -> None:
    """Eight different ports are taken; the same one twice is not."""
    assert stable_pool(targetPorts=[{"number": 8000 + rank} for rank in range(8)]) == []
    assert stable_pool(targetPorts=[{"number": 1}, {"number": 2}, {"number": 1}]) == [
        "spec.targetPorts: port number must be unique"
    ]


@pytest.mark.parametrize(
    ("key", "valid"),
    [
        ("example", True),
        ("Example_1.x", True),
        ("example.com", True),
        ("example.com/path", True),
        ("example.com/path.html", True),
        ("a" * 63, True),
        (f"{'a' * 63}.{'b' * 63}.{'c' * 63}.com/x", True),
        ("a" * 64, False),
        (f"{'a.' * 125}com/x", False),
        ("", False),
        ("example~", False),
        ("example.com.", False),
        ("Example.com/path", False),
        ("example.com/", False),
        ("example\\com/path", False),
    ],
)
@pytest.mark.parametrize("version", ["v1alpha1", "v1"])
def test_keys_of_a_selector_are_keys_of_labels(version: str, key: str, valid: bool) -> None:
    """A key that no label can have would select nothing, ever."""
    labels = {key: "x"}
    if version == "v1":
        errors, field = stable_pool(selector={"matchLabels": labels}), "spec.selector.matchLabels"
    else:
        spec = {"selector": labels, "targetPortNumber": 8000}
        errors, field = judged("InferencePool", version, spec=spec)[1], "spec.selector"
    assert [error.split(":")[0] for error in errors] == ([] if valid else [field])


def test_a_target_without_a_weight_has_weight_1() -> None:
    """Beside targets with weights too, as the default fills it in before rules look: what refuses such a list
    (A19) looks at what its author wrote."""
    targets = [{"name": "a"}, {"name": "b", "weight": 3}]
    spec = {"modelName": "chat", "poolRef": {"name": "pool"}, "targetModels": targets}
    obj, errors = judged("InferenceModel", "v1alpha1", spec=spec)
    assert errors == []
    assert [target["weight"] for target in obj["spec"]["targetModels"]] == [1, 3]


@pytest.mark.parametrize(("weight", "valid"), [(0, True), (1_000_000, True), (-1, False), (1_000_001, False)])
def test_a20_weights_have_bounds(weight: int, valid: bool) -> None:
    """0 is one of them, as it reserves a name."""
    targets = [{"name": "a", "weight": weight}]
    spec = {"modelName": "chat", "poolRef": {"name": "pool"}, "targetModels": targets}
    errors = judged("InferenceModel", "v1alpha1", spec=spec)[1]
    assert [error.split(":")[0] for error in errors] == ([] if valid else ["spec.targetModels[0].weight"])


@pytest.mark.parametrize(
    ("kind", "version", "group"),
    [
        ("InferenceModel", "v1alpha1", "inference.networking.x-k8s.io"),
        ("InferenceObjective", "v1alpha2", "inference.networking.k8s.io"),
    ],
)
def test_a_pool_is_looked_for_in_the_group_of_its_time(kind: str, version: str, group: str) -> None:
    """A model refers to the experimental pool unless it says otherwise, an objective to the stable one."""
    obj, errors = judged(kind, version, spec={"poolRef": {"name": "pool"}})
    assert errors == []
    assert obj["spec"]["poolRef"] == {"group": group, "kind": "InferencePool", "name": "pool"}


def test_the_core_group_may_be_named() -> None:
    """An empty group is not an absent one."""
    spec = {"poolRef": {"name": "pool", "group": ""}}
    obj, errors = judged("InferenceObjective", "v1alpha2", spec=spec)
    assert (errors, obj["spec"]["poolRef"]["group"]) == ([], "")


def test_the_status_of_an_untouched_objective_says_so() -> None:
    """Once there is a status, its conditions begin with one that waits for a controller."""
    obj, errors = judged("InferenceObjective", "v1alpha2", spec={"poolRef": {"name": "pool"}}, status={})
    assert errors == []
    (condition,) = obj["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Ready", "Unknown", "Pending")
    assert condition["lastTransitionTime"] == "1970-01-01T00:00:00Z"


@pytest.mark.parametrize("kind", ["InferenceModel", "InferenceObjective"])
def test_a_condition_is_there_once(kind: str) -> None:
    """Two conditions of one type contradict each other."""
    version = {"InferenceModel": "v1alpha1", "InferenceObjective": "v1alpha2"}[kind]
    condition = {
        "type": "Accepted",
        "status": "True",
        "reason": "Accepted",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"conditions": [condition, condition | {"status": "False"}]}
    errors = judged(kind, version, spec={"poolRef": {"name": "pool"}}, status=status)[1]
    assert [error.split(":")[0] for error in errors] == ["status.conditions[1]"]
