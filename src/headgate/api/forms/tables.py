"""The tables of a form: how its fields relate to those of Headgate's kinds.

A field that no table names keeps its path. Paths are written as in error messages: `spec.rules[].name` is the
name of any rule, `spec.backends[0]` the first backend, and `headers{}` any entry of a map. In a path of a
target, the same marks stand for the same items, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from headgate.api.meta import Resource


class Field(msgspec.Struct, frozen=True):
    """A field that is moved, translated or not taken, with all fields inside it that have no entry."""

    path: str
    to: tuple[str, ...] = ()
    """Where its value goes: of another output than the first, prefixed with its kind, as in
    `AutoscalingPolicyBinding:spec.minReplicas`. Empty: it is not taken."""
    values: Mapping[str, str] = {}
    """Values that have another name."""
    needs: str = ""
    """The entry is only for objects that have this field."""
    removes: str = ""
    """The enclosing list item that is left out if the field is present."""
    instead: str = ""
    """What happens without the field."""
    fix: str = ""
    harmless: tuple[Any, ...] = ()
    """Values that nothing needs to be done about. `{name}` is the name of the object."""
    changes_service: bool = True
    """Whether requests may be served differently without it."""


class Setting(msgspec.Struct, frozen=True):
    """A field that is set if it is missing: to a value, or to a text made of other fields."""

    path: str
    value: Any
    """In a text, `{spec.modelID}` is the field of that path; without that field, nothing is set."""
    needs: str = ""
    """Set it only if the input has this field."""
    why: str = ""


class Output(msgspec.Struct, frozen=True):
    """A kind that the form becomes."""

    resource: Resource
    settings: tuple[Setting, ...] = ()


class Form(msgspec.Struct, frozen=True):
    """One kind, as other versions of its project have it. It becomes the first output; a further one only if
    fields go there."""

    kind: str
    plural: str
    api_versions: tuple[str, ...]
    outputs: tuple[Output, ...]
    fields: tuple[Field, ...] = ()


def _always(obj: Mapping[str, Any]) -> bool:
    return True


class Unserved(msgspec.Struct, frozen=True):
    """A kind that has no counterpart."""

    kind: str
    plural: str
    api_versions: tuple[str, ...]
    instead: str
    fix: str
    concerns: Callable[[Mapping[str, Any]], bool] = _always
    """Whether the object has to do with inference at all."""


class Remark(msgspec.Struct, frozen=True):
    """A field that Headgate has as well, with another effect."""

    resource: Resource
    path: str
    instead: str
    fix: str = ""
    values: tuple[Any, ...] = ()
    """Only for these values; empty: for any."""
    without: tuple[str, ...] = ()
    """Not for objects that have one of these annotations."""
    changes_service: bool = False
