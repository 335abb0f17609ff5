"""Validation of metadata for all kinds, with Kubernetes' error messages."""

from __future__ import annotations

import random
import uuid
from typing import Any

import msgspec

from headgate.apiserver import errors

GENERATED_NAME_LENGTH = 63
SUFFIX_LENGTH = 5
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels and no similar-looking characters, so that a suffix is never a word."""


class _OwnerReference(msgspec.Struct, rename="camel"):
    api_version: str | None = None  # whether it is there is a rule of its own
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class _ManagedFields(msgspec.Struct, rename="camel"):
    manager: str = ""
    operation: str = ""
    api_version: str = ""
    time: str | None = None
    fields_type: str = ""
    fields_v1: dict[str, Any] | None = msgspec.field(default=None, name="fieldsV1")
    subresource: str = ""


class _ObjectMeta(msgspec.Struct, rename="camel"):
    """Only for type checks: exactly the fields that Kubernetes has."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    self_link: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[_OwnerReference] | None = None
    finalizers: list[str] | None = None
    managed_fields: list[_ManagedFields] | None = None


_TEXT = {"type": "string"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_TIME = {"type": "string", "format": "date-time"}


def _field(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {**schema, "description": description}


SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "Standard object's metadata.",
    "properties": {
        "name": _field(_TEXT, "Name of the object, unique among its kind in a namespace. Cannot be updated."),
        "generateName": _field(
            _TEXT, "Prefix from which the server makes a unique name, if there is no name."
        ),
        "namespace": _field(_TEXT, "Namespace in which the name is unique."),
        "uid": _field(_TEXT, "Identity of this object in time and space, given by the server."),
        "resourceVersion": _field(
            _TEXT, "Opaque version of the stored object, for watches and safe updates."
        ),
        "generation": _field({"type": "integer", "format": "int64"}, "Counts changes of the desired state."),
        "creationTimestamp": _field(_TIME, "When the object was created."),
        "deletionTimestamp": _field(_TIME, "When the object will be, or was asked to be, deleted."),
        "deletionGracePeriodSeconds": _field(
            {"type": "integer", "format": "int64"}, "Seconds that the object has to end in good order."
        ),
        "labels": _field(_TEXTS, "Keys and values by which selectors find the object."),
        "annotations": _field(_TEXTS, "Notes that tools keep on the object."),
        "ownerReferences": {
            "type": "array",
            "description": "Objects without which this one has no reason to exist.",
            "items": {
                "type": "object",
                "x-kubernetes-map-type": "atomic",
                "required": ["apiVersion", "kind", "name", "uid"],
                "properties": {
                    "apiVersion": _field(_TEXT, "Version of the owner's API."),
                    "kind": _field(_TEXT, "Kind of the owner."),
                    "name": _field(_TEXT, "Name of the owner."),
                    "uid": _field(_TEXT, "UID of the owner."),
                    "controller": _field(
                        {"type": "boolean"}, "True on the one owner that manages the object."
                    ),
                    "blockOwnerDeletion": _field(
                        {"type": "boolean"}, "Whether foreground deletion of the owner waits for this object."
                    ),
                },
            },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "uid",
        },
        "finalizers": {
            "type": "array",
            "description": "Work that must be done before the object may go.",
            "items": _TEXT,
            "x-kubernetes-list-type": "set",
            "x-kubernetes-patch-strategy": "merge",
        },
        "managedFields": {
            "type": "array",
            "description": "Which manager owns which fields; for server-side apply.",
            "items": {"type": "object"},
            "x-kubernetes-list-type": "atomic",
        },
    },
}
"""Schema of metadata, used for kubectl explain, patches and field ownership."""

FIELDS = frozenset(field.encode_name for field in msgspec.structs.fields(_ObjectMeta))


def normalize(obj: dict[str, Any]) -> list[str]:
    """Check the types of metadata (else 400), remove nulls and unknown fields; returns the latter."""
    meta = obj.setdefault("metadata", {})
    if not isinstance(meta, dict):
        raise errors.bad_request("metadata: must be an object")
    try:
        msgspec.convert(meta, _ObjectMeta)
    except msgspec.ValidationError as error:
        detail = str(error).replace("at `$", "at `metadata")
        raise errors.bad_request(f"the object provided is unrecognized: {detail}") from error
    unknown = [name for name in meta if name not in FIELDS]
    for name in unknown:
        del meta[name]
    for name in [name for name, value in meta.items() if value is None or value in ({}, [])]:
        if name != "managedFields":
            del meta[name]
    meta.pop("selfLink", None)
    return [f"metadata.{name}" for name in unknown]


def new_uid() -> str:
    """A version 4 UUID. It protects no secret, so it does not need the system's randomness."""
    digits = f"{random.getrandbits(128) & _RANDOM_BITS | _VERSION_4:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


_RANDOM_BITS = ~(0xF << 76 | 0b11 << 62)
_VERSION_4 = 4 << 76 | 0b10 << 62


def generate_name(prefix: str) -> str:
    """A very likely unused name: the prefix and five characters."""
    number = uuid.uuid4().int
    suffix = ""
    for _ in range(SUFFIX_LENGTH):
        number, index = divmod(number, len(_SUFFIX_ALPHABET))
        suffix += _SUFFIX_ALPHABET[index]
    return prefix[: GENERATED_NAME_LENGTH - SUFFIX_LENGTH] + suffix
