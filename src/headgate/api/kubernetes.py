"""The schemas that Kubernetes itself has for its kinds, which complete ours.

Our types of these kinds name what we use of them, with descriptions, defaults and limits; an object may have
any field that Kubernetes has, and none besides. `kubernetes.json` has the types of one Kubernetes release,
and is written by `tools/kubernetes_schemas.py`.
"""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import Any, Literal

import msgspec

from headgate.kubeschema import quantity

Schema = dict[str, Any]
Purpose = Literal["object", "status", "merge"]
"""What a schema is for. A merge goes by the types of lists, which no object is refused for. Of a status
nothing is required, because it is observed and not wished for."""

QUANTITY = "api.resource.Quantity"
_KEEP = "x-kubernetes-preserve-unknown-fields"
_ROOT_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
_OF_LISTS = frozenset({"x-kubernetes-list-type", "x-kubernetes-list-map-keys"})
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
    """Whether a kind is Kubernetes' own, and not a question such as SelfSubjectReview."""
    return type_name(api_version, kind) in _definitions()


def completed(api_version: str, kind: str, ours: Schema, *, for_merging: bool = False) -> Schema:
    """Our schema of a kind with everything that Kubernetes has besides; fields that neither has are unknown.

    The parts that only Kubernetes has are shared between schemas: no part may be changed in place.
    """
    theirs = dict(_resolved(type_name(api_version, kind), "merge" if for_merging else "object"))
    fields = {name: field for name, field in theirs["properties"].items() if name not in _ROOT_FIELDS}
    if "status" in fields and not for_merging:
        fields["status"] = _made(
            _definitions()[type_name(api_version, kind)]["properties"]["status"], "status"
        )
    theirs["properties"] = fields
    return _merged(theirs, ours)


@functools.cache
def _definitions() -> dict[str, Schema]:
    found: dict[str, Schema] = msgspec.json.decode((files(__package__) / "kubernetes.json").read_bytes())
    return found


@functools.cache
def _resolved(name: str, purpose: Purpose) -> Schema:
    return quantity.SCHEMA if name == QUANTITY else _made(_definitions()[name], purpose)


def _made(node: Schema, purpose: Purpose) -> Schema:
    """The schema for a purpose, with references resolved to parts that are made once."""
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
    """What ours says goes before theirs, but which fields there are is theirs to say."""
    merged = theirs | ours
    if "format" in theirs:  # ours are int64 for want of a shorter type
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
