"""ModelRoute and ModelServer: what their schemas demand beyond one field."""

from __future__ import annotations

from typing import Any

import pytest

from headgate import api
from headgate.kubeschema import structural

Object = dict[str, Any]

SCHEMAS = {
    d["spec"]["names"]["kind"]: d["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for d in api.custom_definitions()
}
TARGETS = [{"modelServerName": "pool"}]


def judged(kind: str, spec: Object, old: Object | None = None) -> list[str]:
    """What is wrong with an object of this spec, after one of the old spec if it is an update.

    Without the remark that rules across fields have to wait for the schema.
    """
    objects = [
        {"apiVersion": "any", "kind": kind, "metadata": {"name": "x"}, "spec": each}
        for each in (spec, old)
        if each is not None
    ]
    for obj in objects:
        structural.default(SCHEMAS[kind], obj)
    errors = structural.validate(SCHEMAS[kind], *objects)
    return [f"{error.field}: {error.detail}" for error in errors if error.field != structural.NO_FIELD]


def route(**spec: Any) -> Object:
    return {"rules": [{"targetModels": TARGETS}]} | spec


def matching(condition: Object) -> Object:
    return route(
        modelName="m",
        rules=[{"modelMatch": {"headers": {"x-tier": condition}, "uri": condition}, "targetModels": TARGETS}],
    )


@pytest.mark.parametrize("names", [{"modelName": "m"}, {"loraAdapters": ["a"]}])
def test_a_route_is_for_a_model_or_for_adapters(names: Object) -> None:
    """Either is enough."""
    assert judged("ModelRoute", route(**names)) == []


@pytest.mark.parametrize("names", [{}, {"modelName": ""}, {"modelName": "", "loraAdapters": []}])
def test_a_route_for_nothing_is_refused(names: Object) -> None:
    """Neither a model nor an adapter: no request could ever be for it."""
    assert judged("ModelRoute", route(**names)) == ["spec: modelName or loraAdapters must be set"]


@pytest.mark.parametrize("operator", ["exact", "prefix", "regex"])
def test_a_string_is_matched_in_one_way(operator: str) -> None:
    """Each of the three alone, and none of them, which matches everything."""
    assert judged("ModelRoute", matching({operator: "gold"})) == []
    assert judged("ModelRoute", matching({})) == []


@pytest.mark.parametrize(
    "operators", [("exact", "prefix"), ("exact", "regex"), ("prefix", "regex"), ("exact", "prefix", "regex")]
)
def test_a_string_matched_in_two_ways_is_refused(operators: tuple[str, ...]) -> None:
    """In a header and in the path, each at its place."""
    complaint = "only one of exact, prefix and regex may be set"
    assert judged("ModelRoute", matching(dict.fromkeys(operators, "gold"))) == [
        f"spec.rules[0].modelMatch.headers[x-tier]: {complaint}",
        f"spec.rules[0].modelMatch.uri: {complaint}",
    ]


def test_the_name_of_a_route_stays() -> None:
    """A name may be given to a route that had adapters only; from then on it may not change or go."""
    named, adapters = route(modelName="m", loraAdapters=["a"]), route(loraAdapters=["a"])
    assert judged("ModelRoute", named, named) == []
    assert judged("ModelRoute", named, adapters) == []
    complaint = ["spec.modelName: modelName is immutable"]
    assert judged("ModelRoute", named | {"modelName": "n"}, named) == complaint
    assert judged("ModelRoute", adapters, named) == complaint


def test_a_target_without_a_weight_counts_as_100() -> None:
    """So some weights of a rule may be left out."""
    targets = [{"modelServerName": "a", "weight": 50}, {"modelServerName": "b"}]
    spec = route(modelName="m", rules=[{"targetModels": targets}])
    assert judged("ModelRoute", spec) == []
    assert [target["weight"] for target in spec["rules"][0]["targetModels"]] == [50, 100]


def test_what_a_rule_and_a_group_cannot_do_without_is_required() -> None:
    """All of it is said at once."""
    rules = [{}, {"targetModels": [{"weight": 1}]}]
    assert judged("ModelRoute", route(modelName="m", rules=rules)) == [
        "spec.rules[0].targetModels: ",
        "spec.rules[1].targetModels[0].modelServerName: ",
    ]
    server = {"inferenceEngine": "vLLM", "workloadSelector": {"matchLabels": {"a": "b"}, "pdGroup": {}}}
    assert judged("ModelServer", server) == [
        f"spec.workloadSelector.pdGroup.{field}: " for field in ("decodeLabels", "groupKey", "prefillLabels")
    ]


@pytest.mark.parametrize("length", ["30s", "1m30s", "0", "1.5h", "100ms"])
def test_durations_are_those_of_go(length: str) -> None:
    """Timeouts and intervals are written as Go writes them."""
    server = {"inferenceEngine": "vLLM", "workloadSelector": {"matchLabels": {"a": "b"}}}
    policy = {"timeout": length, "retry": {"retryInterval": length}}
    assert judged("ModelServer", server | {"trafficPolicy": policy}) == []
    for wrong in ("1d", "30", "1h 2m", "", "-"):
        errors = judged("ModelServer", server | {"trafficPolicy": {"timeout": wrong}})
        assert errors
        assert all(error.startswith("spec.trafficPolicy.timeout: ") for error in errors)
