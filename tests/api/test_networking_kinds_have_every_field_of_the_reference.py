"""ModelRoute and ModelServer: every field, default and limit of networking.volcano.sh/v1alpha1."""

from typing import Any

import pytest

from headgate import api

ROUTE, SERVER = "ModelRoute", "ModelServer"

FIELDS: list[tuple[str, str, dict[str, Any]]] = [
    (ROUTE, "spec.modelName", {"type": "string"}),
    (ROUTE, "spec.loraAdapters", {"type": "array", "maxItems": 10}),
    (ROUTE, "spec.rules", {"type": "array", "maxItems": 16}),
    (ROUTE, "spec.rules[].name", {"type": "string"}),
    (ROUTE, "spec.rules[].modelMatch.headers.*.exact", {"type": "string"}),
    (ROUTE, "spec.rules[].modelMatch.headers.*.prefix", {"type": "string"}),
    (ROUTE, "spec.rules[].modelMatch.headers.*.regex", {"type": "string"}),
    (ROUTE, "spec.rules[].modelMatch.uri.exact", {"type": "string"}),
    (ROUTE, "spec.rules[].modelMatch.uri.prefix", {"type": "string"}),
    (ROUTE, "spec.rules[].modelMatch.uri.regex", {"type": "string"}),
    (ROUTE, "spec.rules[].modelMatch.body.model", {"type": "string"}),
    (ROUTE, "spec.rules[].targetModels", {"type": "array", "maxItems": 16}),
    (ROUTE, "spec.rules[].targetModels[].modelServerName", {"type": "string"}),
    (
        ROUTE,
        "spec.rules[].targetModels[].weight",
        {"type": "integer", "minimum": 0, "maximum": 100, "default": 100},
    ),
    (ROUTE, "spec.rateLimit.inputTokensPerUnit", {"type": "integer", "minimum": 1}),
    (ROUTE, "spec.rateLimit.outputTokensPerUnit", {"type": "integer", "minimum": 1}),
    (
        ROUTE,
        "spec.rateLimit.unit",
        {"type": "string", "enum": ["second", "minute", "hour", "day", "month"], "default": "second"},
    ),
    (ROUTE, "spec.rateLimit.global.redis", {"type": "object", "required": ["address"]}),
    (ROUTE, "spec.rateLimit.global.redis.address", {"type": "string"}),
    (SERVER, "spec", {"type": "object", "required": ["inferenceEngine", "workloadSelector"]}),
    (SERVER, "spec.model", {"type": "string", "maxLength": 256}),
    (SERVER, "spec.inferenceEngine", {"type": "string", "enum": ["vLLM", "SGLang"]}),
    (SERVER, "spec.workloadSelector.matchLabels.*", {"type": "string"}),
    (SERVER, "spec.workloadSelector.pdGroup.groupKey", {"type": "string"}),
    (SERVER, "spec.workloadSelector.pdGroup.prefillLabels.*", {"type": "string"}),
    (SERVER, "spec.workloadSelector.pdGroup.decodeLabels.*", {"type": "string"}),
    (SERVER, "spec.workloadPort", {"type": "object", "required": ["port"]}),
    (SERVER, "spec.workloadPort.port", {"type": "integer", "minimum": 1, "maximum": 65535}),
    (
        SERVER,
        "spec.workloadPort.protocol",
        {"type": "string", "enum": ["http", "https"], "default": "http"},
    ),
    (SERVER, "spec.trafficPolicy.timeout", {"type": "string"}),
    (SERVER, "spec.trafficPolicy.retry.attempts", {"type": "integer"}),
    (SERVER, "spec.trafficPolicy.retry.retryInterval", {"type": "string", "default": "100ms"}),
    (
        SERVER,
        "spec.kvConnector.type",
        {"type": "string", "enum": ["http", "lmcache", "nixl", "mooncake"], "default": "http"},
    ),
]


def schema_of(kind: str) -> dict[str, Any]:
    for definition in api.custom_definitions():
        if definition["spec"]["names"]["kind"] == kind:
            schema: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            return schema
    raise AssertionError(kind)


def at(schema: dict[str, Any], path: str) -> dict[str, Any]:
    for step in path.replace("[]", ".[]").split("."):
        if step == "[]":
            schema = schema["items"]
        elif step == "*":
            schema = schema["additionalProperties"]
        else:
            schema = schema["properties"][step]
    return schema


@pytest.mark.parametrize(("kind", "path", "wanted"), FIELDS, ids=lambda value: str(value)[:60])
def test_the_field_has_its_type_default_and_limits(kind: str, path: str, wanted: dict[str, Any]) -> None:
    """A field of the reference is in the schema with exactly these constraints."""
    limits = ("type", "default", "enum", "minimum", "maximum", "maxItems", "maxLength", "required")
    found = {key: value for key, value in at(schema_of(kind), path).items() if key in limits}
    assert found == wanted


@pytest.mark.parametrize("kind", [ROUTE, SERVER])
def test_every_field_is_described(kind: str) -> None:
    """kubectl explain has a sentence for each field."""

    def undescribed(schema: dict[str, Any], path: str) -> list[str]:
        missing = []
        for name, field in schema.get("properties", {}).items():
            inner = field.get("items", field.get("additionalProperties", field))
            missing += undescribed(inner, f"{path}.{name}")
            if "description" not in field and name != "metadata":
                missing.append(f"{path}.{name}")
        return missing

    assert undescribed(schema_of(kind), kind) == []


def test_names_are_those_of_the_reference() -> None:
    """Group, version, plural and scope are what manifests and kubectl users write."""
    found = {
        (d["metadata"]["name"], d["spec"]["versions"][0]["name"], d["spec"]["scope"])
        for d in api.custom_definitions()
        if d["spec"]["group"] == "networking.volcano.sh"
    }
    assert found == {
        ("modelroutes.networking.volcano.sh", "v1alpha1", "Namespaced"),
        ("modelservers.networking.volcano.sh", "v1alpha1", "Namespaced"),
    }
