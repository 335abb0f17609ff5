"""Write src/headgate/api/kubernetes.json: `python tools/kubernetes_schemas.py`.

The file has the types of the built-in kinds that Headgate serves, as structural schemas without descriptions.
They come from the JSON schemas in the package kubernetes-validate, for the Kubernetes release that the
embedded API server follows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from headgate.api import definitions, kubernetes

RELEASE = "v1.33.0"
FILE = Path(kubernetes.__file__).with_name("kubernetes.json")

_KEEP = {"x-kubernetes-preserve-unknown-fields": True}
_ANY_OBJECT = {"type": "object", **_KEEP}
_REPLACED: dict[str, Any] = {
    "util.intstr.IntOrString": {"x-kubernetes-int-or-string": True},
    "meta.v1.Time": {"type": "string", "format": "date-time"},
    "meta.v1.MicroTime": {"type": "string", "format": "date-time"},
    "meta.v1.FieldsV1": _ANY_OBJECT,
    "pkg.runtime.RawExtension": _ANY_OBJECT,
    # The schema of a definition is recursive, and validated by separate rules.
    "apiextensions.v1.JSONSchemaProps": _ANY_OBJECT,
    "apiextensions.v1.CustomResourceSubresourceStatus": _ANY_OBJECT,
}
"""Types that are not structs. api.resource.Quantity remains a reference: its schema is ours."""

_LEFT_OUT = frozenset({"description", "x-kubernetes-group-version-kind", "x-kubernetes-unions", "enum"})
_DEFAULTS: dict[tuple[str, str], Any] = {
    ("core.v1.ServicePort", "protocol"): "TCP",
    ("core.v1.ContainerPort", "protocol"): "TCP",
    ("core.v1.EndpointPort", "protocol"): "TCP",
    ("core.v1.Container", "resources"): {},
    ("core.v1.Container", "terminationMessagePath"): "/dev/termination-log",
    ("core.v1.Container", "terminationMessagePolicy"): "File",
    ("core.v1.PodSpec", "dnsPolicy"): "ClusterFirst",
    ("core.v1.PodSpec", "schedulerName"): "default-scheduler",
    ("core.v1.PodSpec", "securityContext"): {},
    ("apps.v1.StatefulSetSpec", "updateStrategy"): {
        "type": "RollingUpdate",
        "rollingUpdate": {"partition": 0},
    },
    ("apps.v1.StatefulSetSpec", "persistentVolumeClaimRetentionPolicy"): {
        "whenDeleted": "Retain",
        "whenScaled": "Retain",
    },
    ("autoscaling.v2.HorizontalPodAutoscalerSpec", "metrics"): [
        {
            "type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
        }
    ],
    ("discovery.v1.Endpoint", "conditions"): {},
    ("discovery.v1.EndpointPort", "name"): "",
}
"""Defaults of fields that Headgate's types do not have, or that are part of a list's key."""


def written() -> str:
    """The text of the file, one type per line."""
    folder = files("kubernetes_validate") / "kubernetes-json-schema" / f"{RELEASE}-local"
    source = json.loads((folder / "_definitions.json").read_text())["$defs"]
    by_name = {_short(name): definition for name, definition in source.items()}
    found: dict[str, Any] = {}
    waiting = [kubernetes.type_name(each.api_version, each.kind) for each in definitions.builtin_resources()]
    while waiting:
        name = waiting.pop()
        if name not in found and name != kubernetes.QUANTITY:
            found[name] = _with_defaults(name, _structural(by_name[name]))
            waiting += _references(found[name])
    lines = (f"{json.dumps(name)}: {json.dumps(found[name], sort_keys=True)}" for name in sorted(found))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _short(name: str) -> str:
    """ "core.v1.Pod" of "io.k8s.api.core.v1.Pod"."""
    return ".".join(name.rsplit(".", 3)[1:])


def _structural(node: dict[str, Any]) -> Any:
    if "$ref" in node:
        name = _short(node["$ref"])
        rest = {key: value for key, value in node.items() if key not in _LEFT_OUT | {"$ref"}}
        return {**_REPLACED.get(name, {"$ref": name}), **rest}
    made = {key: value for key, value in node.items() if key not in _LEFT_OUT}
    if made.get("format") == "byte":  # validated by a rule, so that errors do not show the secret
        del made["format"]
    if isinstance(kind := made.get("type"), list):
        made["type"] = next(name for name in kind if name != "null")
    for key in ("items", "additionalProperties"):
        if isinstance(made.get(key), dict):
            made[key] = _structural(made[key])
    if "properties" in made:
        made["properties"] = {name: _structural(child) for name, child in made["properties"].items()}
    return made or _KEEP


def _with_defaults(name: str, made: dict[str, Any]) -> dict[str, Any]:
    for field, child in made.get("properties", {}).items():
        if (name, field) in _DEFAULTS:
            child["default"] = _DEFAULTS[(name, field)]
    return made


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for child in node.values():
            yield from _references(child)


if __name__ == "__main__":
    FILE.write_text(written())
