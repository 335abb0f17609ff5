"""`headgate explain-field`: meaning, type, default and bounds of every field, without a server."""

import json
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from headgate import api
from headgate.api import fields
from headgate.cli import main

WEIGHT = "spec.rules[].targetModels[].weight"


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["explain-field", *words])
    assert result.exit_code == code, result.output
    return result.output


def test_a_field_is_shown_with_its_type_default_and_bounds() -> None:
    """What a person who writes the field needs to know."""
    shown = run("modelroute.spec.rules.targetModels.weight")
    assert "KIND:     ModelRoute\nVERSION:  networking.volcano.sh/v1alpha1\n" in shown
    assert f"FIELD:    {WEIGHT} <integer>\n          default: 100; 0 to 100\n" in shown
    assert "Share of the rule's traffic" in shown


def test_kinds_of_the_gateway_api_are_explained() -> None:
    """Headgate serves them, though their definitions are those of another project."""
    shown = run("httproute.spec.rules.backendRefs.weight")
    assert "KIND:     HTTPRoute\nVERSION:  gateway.networking.k8s.io/v1\n" in shown
    assert "<integer>" in shown
    assert "Did you mean httproute.spec.rules[].filters?" in run("httproute.spec.rules.filtres", code=2)
    assert "Did you mean HTTPRoute?" in run("httprout", code=2)


@pytest.mark.parametrize(
    "path",
    [
        "mr.spec.rules[].targetModels[].weight",
        "MR.spec.rules[2].targetModels[0].weight",
        f"modelroutes.{WEIGHT}",
    ],
)
def test_paths_may_be_written_as_in_errors(path: str) -> None:
    """With indexes, with empty brackets, or without; a path is copied from where it was seen."""
    assert f"FIELD:    {WEIGHT} <integer>" in run(path)


def test_values_of_maps_are_reached_with_and_without_a_star() -> None:
    """As kubectl explain does it, and as our own paths are written."""
    assert run("mr.spec.rules.modelMatch.headers.exact") == run("mr.spec.rules[].modelMatch.headers.*.exact")


def test_a_kind_alone_lists_its_fields() -> None:
    """And with --recursive those of all levels, indented."""
    assert "\n  spec <object>\n    required\n" in run("ModelServer")
    assert "\n        protocol <string>\n" not in run("ModelServer")
    assert '\n      protocol <string>\n        default: "http"; one of http, https\n' in run(
        "ModelServer", "--recursive"
    )


def test_json_has_the_same_facts() -> None:
    """For scripts and editors."""
    shown = json.loads(run("mr.spec.rateLimit", "-o", "json"))
    assert (shown["kind"], shown["path"], shown["type"]) == ("ModelRoute", "spec.rateLimit", "object")
    unit = next(field for field in shown["fields"] if field["path"] == "spec.rateLimit.unit")
    assert unit["default"] == "second"
    assert unit["bounds"] == {"enum": ["second", "minute", "hour", "day", "month"]}


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("mr.spec.rulez", "ModelRoute: spec has no field 'rulez'. Did you mean mr.spec.rules?"),
        ("mr.weight", f"the object has no field 'weight'. Did you mean mr.{WEIGHT}?"),
        ("mr.spec.rules.nonsense", "spec.rules has no field 'nonsense'.\n"),
        ("modelrouter.spec", "Headgate has no kind 'modelrouter'. Did you mean ModelRoute"),
    ],
)
def test_a_mistyped_path_suggests_what_was_meant(path: str, hint: str) -> None:
    """A name spelled alike at the place, or the same name at another place."""
    assert hint in run(path, code=2)


def test_two_kinds_of_one_name_are_told_apart() -> None:
    """InferencePool is in two groups; the page of one names the other."""
    assert "another kind with this name: --api-version inference.networking.k8s.io/v1" in run("inferencepool")
    shown = run("inferencepool.spec.targetPorts", "--api-version", "inference.networking.k8s.io/v1")
    assert "1 to 8 items" in shown
    assert "it is in inference.networking.x-k8s.io/v1alpha1 and" in run(
        "inferencepool", "--api-version", "v2", code=2
    )


def test_rules_across_fields_are_shown() -> None:
    """In the words of the error that breaks them."""
    assert "RULES:\n    modelName or loraAdapters must be set\n" in run("mr.spec")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("modelr", ["ModelRoute"]),
        ("ModelRoute.s", ["ModelRoute.spec", "ModelRoute.status"]),
        ("mr.spec.rateLimit.un", ["mr.spec.rateLimit.unit"]),
        ("mr.spec.nothing.", []),
    ],
)
def test_shells_complete_kinds_and_fields(typed: str, offered: list[str]) -> None:
    """Tab goes on from any place of a path."""
    completion = ShellComplete(main, {}, "headgate", "_HEADGATE_COMPLETE")
    found = completion.get_completions(["explain-field"], typed)
    assert [item.value for item in found] == offered


@pytest.mark.parametrize("definition", api.custom_definitions(), ids=lambda d: d["metadata"]["name"])
def test_every_field_of_every_kind_is_found_by_its_path(definition: dict[str, Any]) -> None:
    """No path that is printed leads nowhere."""
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for field in fields.below(fields.root(schema)):
        assert fields.find(schema, field.path) == field


def test_bounds_are_words_where_an_expression_would_hide_them() -> None:
    """Durations and quantities are called so, and one item is no "items"."""
    assert "a duration such as 1m30s" in run("ms.spec.trafficPolicy.timeout")
    assert "a quantity above 0, such as 500m or 16Gi" in run("asp.spec.metrics.targetValue")
    assert "at least 1 item\n" in run("asp.spec.metrics")
