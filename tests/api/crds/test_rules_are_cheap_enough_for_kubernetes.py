"""kube-apiserver refuses a CRD with a CEL rule whose estimated cost is over its budget.

The estimate here follows the cost model of cel-go and the limits of apiextensions-apiserver for the few
forms of rules that the CRDs have: a step for each name, selection, operator and call, ten for a list, a
quarter for each character of a regular expression, and all of it as often as the value can occur in 3 MiB.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from headgate import api

CRDS = {crd["metadata"]["name"]: crd for crd in api.custom_definitions()}
REQUEST_BYTES = 3 * 1024 * 1024
LIMIT_OF_A_RULE = 10_000_000
LIMIT_OF_A_CRD = 100_000_000

MIN_BYTES = {"object": 2, "string": 2, "array": 2, "boolean": 4}
LOOP_STEPS = 4
STRING = re.compile(r"'(?:[^'\\]|\\.)*'")
HAS = re.compile(r"has\(([\w.]+)\)")
STEP = re.compile(r"[A-Za-z_]\w*|[!=<>]=?|[-+*/%]")
MACRO = re.compile(r"\bself\.(?:all|exists|exists_one|map|filter)\(")


@pytest.mark.parametrize("name", CRDS)
def test_no_rule_is_over_the_budget(name: str) -> None:
    """Neither one rule, nor all of them together."""
    costs = {f"{path}: {rule}": cost for path, rule, cost in rules(name)}
    assert {rule: cost for rule, cost in costs.items() if cost > LIMIT_OF_A_RULE} == {}
    assert sum(costs.values()) <= LIMIT_OF_A_CRD


def test_the_estimate_finds_rules_that_are_too_expensive() -> None:
    """A long expression for any number of keys, and a list made for each of any number of values."""
    any_map = {"type": "object", "additionalProperties": {"type": "string"}}
    assert cost_of(f"self.all(key, key.matches('{'a' * 120}'))", any_map, 1) > LIMIT_OF_A_RULE
    rule = "[has(self.a), has(self.b)].filter(x, x).size() <= 1"
    assert cost_of(rule, {"type": "object"}, REQUEST_BYTES / 3) > LIMIT_OF_A_RULE
    few = any_map | {"maxProperties": 64}
    assert cost_of(f"self.all(key, key.matches('{'a' * 120}'))", few, 1) < LIMIT_OF_A_RULE


def rules(name: str) -> Iterator[tuple[str, str, float]]:
    for version in CRDS[name]["spec"]["versions"]:
        for path, node, times in nodes(version["schema"]["openAPIV3Schema"], "", 1):
            for validation in node.get("x-kubernetes-validations", ()):
                yield path, validation["rule"], cost_of(validation["rule"], node, times)


def nodes(schema: dict[str, Any], path: str, times: float) -> Iterator[tuple[str, dict[str, Any], float]]:
    """Every schema with how often its value can occur."""
    yield path, schema, times
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}", times)
    for keyword, bound in (("items", "maxItems"), ("additionalProperties", "maxProperties")):
        if isinstance(child := schema.get(keyword), dict):
            most = REQUEST_BYTES / (least_bytes(child) + 1)
            yield from nodes(child, f"{path}[]", min(most, times * schema.get(bound, most)))


def cost_of(rule: str, schema: dict[str, Any], times: float) -> float:
    expressions = sum(len(text) / 4 for text in STRING.findall(rule)) if ".matches(" in rule else 0
    plain = HAS.sub(lambda found: "x" + ".x" * (found[1].count(".") - 1), STRING.sub("", rule))
    once = len(STEP.findall(plain)) + 10 * plain.count("[") + expressions
    for _ in MACRO.findall(plain):
        once = (once + LOOP_STEPS) * most_elements(schema)
    return once * times


def most_elements(schema: dict[str, Any]) -> float:
    if "items" in schema:
        return float(schema.get("maxItems", REQUEST_BYTES / (least_bytes(schema["items"]) + 1)))
    entry = schema.get("additionalProperties")
    return float(schema.get("maxProperties", REQUEST_BYTES / (least_bytes(entry) + 6))) if entry else 1.0


def least_bytes(schema: dict[str, Any]) -> int:
    """The least that a value takes in a request; required fields of an object are left out, to be careful."""
    return MIN_BYTES.get(schema.get("type", ""), 1)
