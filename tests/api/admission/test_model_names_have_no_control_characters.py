"""A model's name is part of keys, log lines and headers: no object may put control characters there."""

import pytest

from headgate import api
from headgate.kubeschema import structural

TO_S = {"targetModels": [{"modelServerName": "s", "weight": 100}]}


@pytest.mark.parametrize("character", ["\r", "\n", "\x00", "\x1b", "\x7f", "\x85", "\u2028"], ids=repr)
@pytest.mark.parametrize(
    ("kind", "field", "spec"),
    [
        ("route", "spec.modelName", lambda name: {"modelName": name, "rules": [TO_S]}),
        ("route", "spec.loraAdapters[1]", lambda name: {"loraAdapters": ["a", name], "rules": [TO_S]}),
        (
            "server",
            "spec.model",
            lambda name: {
                "model": name,
                "inferenceEngine": "vLLM",
                "workloadSelector": {"matchLabels": {"a": "b"}},
            },
        ),
        ("inference model", "spec.modelName", lambda name: {"modelName": name, "poolRef": {"name": "p"}}),
        (
            "inference model",
            "spec.targetModels[0].name",
            lambda name: {"modelName": "m", "poolRef": {"name": "p"}, "targetModels": [{"name": name}]},
        ),
    ],
)
def test_control_characters_are_refused(make, kind, field, spec, character):
    """By the schema, wherever they are in the name."""
    for name in (f"ab{character}c", character, f"a{character}"):
        assert refused(make(kind, "o", spec(name)))[field].endswith("must not contain control characters")
    assert field not in refused(make(kind, "o", spec("Qwen/Qwen3-8B:中文 é")))


def refused(obj):
    """The messages of the schema, by field."""
    (schema,) = (
        version["schema"]["openAPIV3Schema"]
        for each in api.custom_definitions()
        for version in each["spec"]["versions"]
        if (f"{each['spec']['group']}/{version['name']}", each["spec"]["names"]["kind"])
        == (obj["apiVersion"], obj["kind"])
    )
    structural.default(schema, obj)
    return {error.field: error.message() for error in structural.validate(schema, obj)}
