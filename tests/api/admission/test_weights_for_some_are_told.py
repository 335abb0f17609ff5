"""Weights that are set for some and left to the default for others: told before the default hides it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headgate.api import admission


def targets(*weights: Any) -> list[dict[str, Any]]:
    return [{} if weight == "unset" else {"weight": weight} for weight in weights]


@pytest.mark.parametrize(
    ("weights", "told"),
    [
        ((), []),
        (("unset", "unset"), []),
        ((1, 0), []),
        ((10, "unset"), ["[1]"]),
        (("unset", 0, None), ["[0]", "[2]"]),
    ],
)
@pytest.mark.parametrize(
    ("kind", "spec", "field", "default"),
    [
        ("route", lambda items: {"rules": [{"targetModels": items}]}, "spec.rules[0].targetModels", 100),
        ("inference model", lambda items: {"targetModels": items}, "spec.targetModels", 1),
    ],
)
def test_a_weight_that_is_left_out_beside_others_is_told(
    make: Callable[..., Any], kind: str, spec: Any, field: str, default: int, weights: Any, told: list[str]
) -> None:
    """Each one that is left out, with what it counts; all or none are as they should be."""
    found = admission.warnings_of_written(make(kind, "x", spec(targets(*weights))))
    words = f"weight: is not set and counts {default} beside those that are: set all of them, or none"
    assert found == [f"{field}{index}.{words}" for index in told]


def test_backends_of_a_model_are_judged_alike(make: Callable[..., Any]) -> None:
    """Their share is called routeWeight."""
    (told,) = admission.warnings_of_written(make("model", "m", {"backends": [{"routeWeight": 5}, {}]}))
    assert told.startswith("spec.backends[1].routeWeight: is not set and counts 100")


@pytest.mark.parametrize("spec", [None, [], {"rules": {}}, {"rules": [{"targetModels": [1, {"weight": 1}]}]}])
def test_malformed_objects_and_other_kinds_pass(make: Callable[..., Any], spec: Any) -> None:
    """What is wrong with them others say; a kind of the same name in another group is not ours."""
    route = make("route", "r") | {"spec": spec}
    assert admission.warnings_of_written(route) == []
    foreign = {
        "apiVersion": "example.com/v1",
        "kind": "Model",
        "spec": {"backends": [{"routeWeight": 5}, {}]},
    }
    assert admission.warnings_of_written(foreign) == []
