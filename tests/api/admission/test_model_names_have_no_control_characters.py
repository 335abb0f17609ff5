"""A model's name is part of keys, log lines and headers: no object may put control characters there."""

import pytest

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
            lambda name: {"model": name, "workloadSelector": {"matchLabels": {"a": "b"}}},
        ),
        ("inference model", "spec.modelName", lambda name: {"modelName": name, "poolRef": {"name": "p"}}),
        (
            "inference model",
            "spec.targetModels[0].name",
            lambda name: {"modelName": "m", "poolRef": {"name": "p"}, "targetModels": [{"name": name}]},
        ),
    ],
)
def test_control_characters_are_refused(judge, make, kind, field, spec, character):
    """By the field, the character and its place."""
    (error,), _ = judge(make(kind, "o", spec(f"ab{character}c")))
    assert error.startswith(f"{field}: Invalid value: ")
    assert error.endswith(
        f"must not contain control characters, such as U+{ord(character):04X} at position 2"
    )
    assert judge(make(kind, "o", spec("Qwen/Qwen3-8B:中文 é")))[0] == []
