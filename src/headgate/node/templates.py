"""Telling Pod templates apart: a name for each content, the same whenever the content is the same."""

import hashlib
from typing import Any

import msgspec

from headgate.api import marks
from headgate.node.workloads import Template

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""As in Kubernetes: no vowels, so that no hash is a word."""

_LENGTH = 10


def content_hash(template: Template) -> str:
    """Ten characters. The label that carries the hash itself doesn't count, nor does what is null or empty.

    kubectl writes a template back with nulls and empty objects where there was nothing (`rollout undo`);
    that is no new revision.
    """
    canonical = msgspec.json.encode(_essence(without_hash(template)), order="deterministic")
    number = int.from_bytes(hashlib.sha256(canonical).digest()[:8])
    letters = []
    for _ in range(_LENGTH):
        number, index = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[index])
    return "".join(letters)


def with_hash(template: Template, value: str) -> Template:
    """The template with the label that says which revision it is."""
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), marks.POD_TEMPLATE_HASH: value}
    return {**template, "metadata": {**metadata, "labels": labels}}


def without_hash(template: Template) -> Template:
    metadata = template.get("metadata") or {}
    labels = {
        key: value for key, value in (metadata.get("labels") or {}).items() if key != marks.POD_TEMPLATE_HASH
    }
    return {**template, "metadata": {**metadata, "labels": labels}}


def _essence(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _essence(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item is not None and item not in ({}, [])}
    if isinstance(value, list):
        return [_essence(item) for item in value]
    return value
