"""A write as it was requested: what is done with a body, in the server or in its helper process."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from headgate.apiserver import patch
from headgate.apiserver.handlers import bodies, pods
from headgate.apiserver.objects import Objects, Outcome
from headgate.apiserver.targets import Target, WriteOptions

__all__ = ["Change", "decode", "write"]

Verb = Literal["create", "update", "apply", "bind", "json", "merge", "strategic"]


class Change(msgspec.Struct, frozen=True):
    """A write of one object; the last three verbs are kinds of patches."""

    verb: Verb
    media: str
    body: bytes
    options: WriteOptions


def decode(change: Change, *, quickly: bool = False) -> tuple[Any, list[str]]:
    """The value of the body, and complaints about its duplicate fields.

    Raises bodies.SlowYAMLError for YAML that takes long, if it is to be done quickly.
    """
    if change.verb not in patch.KINDS:
        return bodies.decode_object(change.body, change.media, quickly=quickly)
    value, complaints = bodies.decode_json(change.body)
    if change.verb == "json":
        complaints = [f"json patch {complaint}" for complaint in complaints]
    return value, complaints


def write(objects: Objects, target: Target, change: Change, value: Any, complaints: list[str]) -> Outcome:
    """Does the whole write, with a value that it may change, or raises UnansweredError and stores nothing."""
    options = change.options
    match change.verb:
        case "create":
            return objects.create(target, value, options, complaints)
        case "update":
            return objects.update(target, value, options, complaints)
        case "apply":
            return objects.apply(target, value, options, complaints)
        case "bind":
            return pods.bind(objects, target, value, options)
        case kind:
            return objects.patch(target, kind, value, options, complaints)
