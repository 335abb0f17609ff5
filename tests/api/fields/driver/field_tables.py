"""Reads the hand-written field tables, and spells out the types that they abbreviate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

TABLES = Path(__file__).parents[1] / "tables"

LIMITS = (
    *("minimum", "maximum", "minLength", "maxLength", "pattern", "enum", "default"),
    *("minItems", "maxItems", "minProperties", "maxProperties"),
)

_LABEL = "([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
_SPELLED: dict[str, dict[str, Any]] = {
    "duration": {
        "type": "string",
        "valid": ["0", "100ms", "1h2m3s", "1.5h", "-1s", "+3us"],
        "invalid": ["", "5", "1d", "abc", "1 s", "s"],
    },
    "window": {
        "type": "string",
        "valid": ["0", "100ms", "1m30s", "0.5h", "+3us"],
        "invalid": ["", "5", "1d", "abc", "1 s", "s"],
    },
    "quantity": {
        "type": "int-or-string",
        "valid": [3, "3", "100m", "1.5Gi", "2e3", "-1", "+4k"],
        "invalid": ["", "abc", "1.2.3", "1Qi", "1 Gi", True],
    },
    "time": {
        "type": "string",
        "valid": ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456Z", "2026-01-01T00:00:00+02:00"],
        "invalid": ["", "yesterday", "2026-01-01"],
    },
    "conditions": {"type": "array", "distinct": "type"},
    "policy": {"type": "object"},
}
_CONDITIONS: dict[str, dict[str, Any]] = {  # a list of metav1.Condition
    "[]": {"type": "object"},
    "[].type": {
        "type": "string",
        "required": True,
        "maxLength": 316,
        "pattern": f"^{_LABEL}(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        "valid": ["Ready", "example.com/Ready"],
        "invalid": ["", "Not Ready", "/Ready"],
    },
    "[].status": {"type": "string", "required": True, "enum": ["True", "False", "Unknown"]},
    "[].reason": {
        "type": "string",
        "required": True,
        "minLength": 1,
        "maxLength": 1024,
        "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        "valid": ["A", "A_b,c:d1"],
        "invalid": ["1st", "has spaces", "Ends:"],
    },
    "[].message": {"type": "string", "required": True, "maxLength": 32768},
    "[].lastTransitionTime": {"type": "time", "required": True},
    "[].observedGeneration": {"type": "integer", "minimum": 0},
}
_COMPLETED = ["absent", "null"]
_STABLE: dict[str, dict[str, Any]] = {  # AutoscalingPolicyStablePolicy
    "": {"type": "object", "beyond_schema": _COMPLETED},
    ".instances": {"type": "integer", "default": 1, "minimum": 0},
    ".percent": {"type": "integer", "default": 100, "minimum": 0, "maximum": 1000},
    ".period": {"type": "window", "default": "15s"},
    ".selectPolicy": {"type": "string", "default": "Or", "enum": ["Or", "And"]},
    ".stabilizationWindow": {"type": "window", "beyond_schema": _COMPLETED},
}
_PANIC = ".behavior.scaleUp.panicPolicy"
_POLICY: dict[str, dict[str, Any]] = {  # AutoscalingPolicySpec
    ".tolerancePercent": {"type": "integer", "default": 10, "minimum": 0, "maximum": 100},
    ".metrics": {"type": "array", "required": True, "minItems": 1},
    ".metrics[]": {"type": "object"},
    ".metrics[].metricName": {"type": "string", "required": True},
    ".metrics[].targetValue": {"type": "quantity", "required": True, "beyond_schema": ["valid: '-1'"]},
    ".behavior": {"type": "object", "beyond_schema": _COMPLETED},
    ".behavior.scaleUp": {"type": "object", "beyond_schema": _COMPLETED},
    **{f".behavior.scaleUp.stablePolicy{step}": field for step, field in _STABLE.items()},
    _PANIC: {"type": "object"},
    f"{_PANIC}.percent": {"type": "integer", "default": 1000, "minimum": 0, "maximum": 1000},
    f"{_PANIC}.period": {"type": "window", "required": True},
    f"{_PANIC}.panicThresholdPercent": {"type": "integer", "default": 200, "minimum": 110, "maximum": 1000},
    f"{_PANIC}.panicModeHold": {"type": "window", "default": "60s"},
    **{f".behavior.scaleDown{step}": field for step, field in _STABLE.items()},
}
_INSIDE = {"conditions": _CONDITIONS, "policy": _POLICY}


@dataclass(frozen=True)
class Table:
    """What a reference says of one kind."""

    kind: str
    api_version: str
    examples: list[dict[str, Any]]
    """Valid objects that together have every field."""
    fields: dict[str, dict[str, Any]]
    """Path to type, limits and default; types are those of OpenAPI, and map, json, core, int-or-string."""

    needs: list[dict[str, Any]]
    """Objects that must be there before."""

    @property
    def name(self) -> str:
        return f"{self.kind}.{self.api_version}"


def load_all() -> list[Table]:
    """Every table, in the order of the file names."""
    return [_load(file) for file in sorted(TABLES.glob("*.yaml"))]


def _load(file: Path) -> Table:
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    head = {"apiVersion": content["apiVersion"], "kind": content["kind"]}
    examples = [
        head | {"metadata": {"name": f"example-{number}"}} | example
        for number, example in enumerate(content["examples"])
    ]
    fields: dict[str, dict[str, Any]] = {}
    for path, field in content["fields"].items():
        fields[path] = _spelled_out(field)
        for step, inner in _INSIDE.get(field["type"], {}).items():
            fields[path + step] = _spelled_out(inner)
    return Table(content["kind"], content["apiVersion"], examples, fields, content.get("needs", []))


def _spelled_out(field: dict[str, Any]) -> dict[str, Any]:
    return field | _SPELLED[field["type"]] if field["type"] in _SPELLED else field
