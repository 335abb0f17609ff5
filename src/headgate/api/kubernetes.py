"""Kubernetes' own schemas of its kinds, which complete Headgate's.

Headgate's types of these kinds contain the fields that it uses, with descriptions, defaults and limits; an
object may have any field that Kubernetes has, and no others. `kubernetes.json` contains the types of one
Kubernetes release, and is written by `tools/kubernetes_schemas.py`.
"""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import Any, Literal

import msgspec

from headgate.kubeschema import quantity

Schema = dict[str, Any]
Purpose = Literal["object", "status", "merge"]
"""The purpose of a schema. A merge needs the types of lists, which validation ignores. Status fields are
never required, because a status is observed, not desired."""

QUANTITY = "api.resource.Quantity"
_KEEP = "x-kubernetes-preserve-unknown-fields"
_ROOT_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
_OF_LISTS = frozenset({"x-kubernetes-list-type", "x-kubernetes-list-map-keys"})
_NOT_IN_DEFINITIONS = frozenset({"default", "x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key"})
_METADATA_OF_TEMPLATES = ("annotations", "finalizers", "labels", "name", "namespace")
_LEFT_OUT: dict[Purpose, frozenset[str]] = {
    "object": _OF_LISTS,
    "status": _OF_LISTS | {"required"},
    "merge": frozenset(),
}


def type_name(api_version: str, kind: str) -> str:
    """The name of a kind's type: "core.v1.Pod", "apps.v1.Deployment"."""
    group, _, version = api_version.rpartition("/")
    return f"{group.partition('.')[0] or 'core'}.{version}.{kind}"


def knows(api_version: str, kind: str) -> bool:
    """Whether a kind is a stored one of Kubernetes, not a review such as SelfSubjectReview."""
    return type_name(api_version, kind) in _definitions()


def completed(api_version: str, kind: str, ours: Schema, *, for_merging: bool = False) -> Schema:
    """Headgate's schema of a kind, completed with Kubernetes' fields; fields in neither are unknown.

    Schemas share Kubernetes' parts: never change a part in place.
    """
    theirs = dict(_resolved(type_name(api_version, kind), "merge" if for_merging else "object"))
    fields = {name: field for name, field in theirs["properties"].items() if name not in _ROOT_FIELDS}
    if "status" in fields and not for_merging:
        fields["status"] = _made(
            _definitions()[type_name(api_version, kind)]["properties"]["status"], "status"
        )
    theirs["properties"] = fields
    return _merged(theirs, ours)


def embedded_pod_template(ours: Schema) -> Schema:
    """The schema of a Pod template in a custom kind, completed with Kubernetes' fields."""
    made = _for_definition(_merged(_resolved("core.v1.PodTemplateSpec", "merge"), ours))
    metadata = made["properties"]["metadata"]
    fields = {name: metadata["properties"][name] for name in _METADATA_OF_TEMPLATES}
    made["properties"]["metadata"] = metadata | {"properties": fields}
    return made


def _for_definition(node: Schema) -> Schema:
    """A copy as definitions of custom kinds have it. Only keys of lists keep their defaults: a template gets
    the others when it becomes a Pod."""
    made = {key: value for key, value in node.items() if key not in _NOT_IN_DEFINITIONS}
    for key in ("items", "additionalProperties"):
        if key in made:
            made[key] = _for_definition(made[key])
    if "properties" in made:
        made["properties"] = {name: _for_definition(child) for name, child in made["properties"].items()}
    for name in made.get("x-kubernetes-list-map-keys", ()):
        if name not in made["items"].get("required", ()):
            default = node["items"]["properties"][name].get("default", "")
            made["items"]["properties"][name]["default"] = default
    return made


@functools.cache
def _definitions() -> dict[str, Schema]:
    found: dict[str, Schema] = msgspec.json.decode((files(__package__) / "kubernetes.json").read_bytes())
    return found


@functools.cache
def _resolved(name: str, purpose: Purpose) -> Schema:
    return quantity.SCHEMA if name == QUANTITY else _made(_definitions()[name], purpose)


def _made(node: Schema, purpose: Purpose) -> Schema:
    """The schema for a purpose, with references resolved to shared parts."""
    left_out = _LEFT_OUT[purpose]
    made = {key: value for key, value in node.items() if key not in left_out}
    if name := made.pop("$ref", None):
        return {**_resolved(name, purpose), **made} if made else _resolved(name, purpose)
    for key in ("items", "additionalProperties"):
        if key in made:
            made[key] = _made(made[key], purpose)
    if "properties" in made:
        made["properties"] = {name: _made(child, purpose) for name, child in made["properties"].items()}
    return made


def _merged(theirs: Schema, ours: Schema) -> Schema:
    """Headgate's keywords take precedence, but Kubernetes decides which fields exist."""
    merged = theirs | ours
    if "format" in theirs:  # Headgate's are int64 for lack of a shorter type
        merged["format"] = theirs["format"]
    if _KEEP not in theirs:
        merged.pop(_KEEP, None)
    for key in ("items", "additionalProperties"):
        if key in theirs and key in ours:
            merged[key] = _merged(theirs[key], ours[key])
    known, own = theirs.get("properties", {}), ours.get("properties", {})
    if known or own:
        both = {name: _merged(known[name], child) if name in known else child for name, child in own.items()}
        merged["properties"] = known | both
    if required := [*ours.get("required", ()), *(r for r in theirs.get("required", ()) if r not in own)]:
        merged["required"] = required
    return merged
