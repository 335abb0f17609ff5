"""Applies the tables of a form to an object.

No field is lost without a word: each is found in an output, under its own path or one that a `Change` names,
or a `Difference` says that it is not taken. The only exceptions are the status and the metadata that servers
write: outputs are objects to create.
"""

from __future__ import annotations

import copy
import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from headgate.api import definitions
from headgate.api.forms import paths
from headgate.api.forms.paths import ABSENT, Steps
from headgate.api.forms.tables import Field, Form, Output, Remark
from headgate.api.meta import Resource

Object = dict[str, Any]

_APART: Final = ("apiVersion", "kind", "metadata", "status")
_MAX_SHOWN: Final = 200
"""Characters of a value."""
_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_KEEP = "x-kubernetes-preserve-unknown-fields"


class Change(msgspec.Struct, frozen=True):
    """A field that means the same under another path or with another value, or that was set."""

    path: str
    """In the input; empty if the field was set."""
    to: str
    note: str = ""


class Difference(msgspec.Struct, frozen=True):
    """A field that is not taken, or has another effect."""

    path: str
    value: str
    """As JSON, shortened."""
    instead: str
    fix: str = ""
    changes_service: bool = True


class Conversion(msgspec.Struct, frozen=True):
    objects: tuple[Object, ...]
    changes: tuple[Change, ...] = ()
    differences: tuple[Difference, ...] = ()


def convert(obj: Object, form: Form) -> Conversion:
    """The object in Headgate's kinds. It is not validated, and the input is not changed."""
    return _Converter(obj, form).converted()


class _Converter:
    def __init__(self, obj: Object, form: Form) -> None:
        self._obj = obj
        self._form = form
        self._made: dict[str, Object] = {output.resource.kind: {} for output in form.outputs}
        self._main = form.outputs[0].resource.kind
        self._changes: dict[tuple[str, str], Change] = {}
        self._differences: dict[str, Difference] = {}

    def converted(self) -> Conversion:
        removed = set(self._removed())
        for place in removed:
            if paths.value_at(self._made[self._main], place[:-1]) is ABSENT:
                _put(
                    self._made[self._main], place[:-1], []
                )  # an empty list is invalid, a missing one may not be
        content = {name: value for name, value in self._obj.items() if name not in _APART}
        for steps, value in paths.leaves(content) if content else ():
            if not any(steps[:length] in removed for length in range(1, len(steps) + 1)):
                self._take(steps, value)
        objects = []
        for output in self._form.outputs:
            content = self._made[output.resource.kind]
            if not content and output.resource.kind != self._main:
                continue
            self._set(output, content)
            objects.append(
                {
                    "apiVersion": output.resource.api_version,
                    "kind": output.resource.kind,
                    "metadata": copy.deepcopy(self._obj.get("metadata")),
                    **_compact(content),
                }
            )
        return Conversion(tuple(objects), tuple(self._changes.values()), tuple(self._differences.values()))

    def _removed(self) -> Iterator[Steps]:
        """List items that are left out for one of their fields."""
        for field in self._form.fields:
            if field.removes:
                length = len(paths.parsed(field.removes))
                for place in paths.places(self._obj, paths.parsed(field.path)):
                    self._drop(place[:length], field)
                    yield place[:length]

    def _take(self, steps: Steps, value: Any) -> None:
        """Put one leaf where it belongs."""
        found = self._field_of(steps)
        if found is None:
            self._put(self._main, steps, value, steps)
            return
        field, stands_for = found
        length = len(paths.parsed(field.path))
        prefix, rest = steps[:length], steps[length:]
        if not field.to:
            self._drop(prefix, field)
            return
        renamed = field.values.get(value, value) if isinstance(value, str) and field.values else value
        for target in field.to:
            kind, _, path = target.rpartition(":")
            place = paths.filled(paths.parsed(path), stands_for)
            if self._put(kind or self._main, (*place, *rest), renamed, steps):
                named = f"{kind} {paths.written(place)}" if kind else paths.written(place)
                self._note(paths.written(prefix), named, "" if renamed == value else f"{value} -> {renamed}")

    def _field_of(self, steps: Steps) -> tuple[Field, Steps] | None:
        """The entry with the longest path that the leaf is in, and what its marks stand for."""
        best: tuple[Field, Steps] | None = None
        for field in self._form.fields:
            pattern = paths.parsed(field.path)
            if best is not None and len(pattern) <= len(paths.parsed(best[0].path)):
                continue
            stands_for = paths.match(pattern, steps)
            if stands_for is None:
                continue
            if not field.needs or paths.value_at(self._obj, paths.parsed(field.needs)) is not ABSENT:
                best = field, stands_for
        return best

    def _note(self, path: str, to: str, note: str) -> None:
        if path != to or note:
            self._changes.setdefault((path, to), Change(path, to, note))

    def _drop(self, prefix: Steps, field: Field) -> None:
        path, value = paths.written(prefix), paths.value_at(self._obj, prefix)
        if path in self._differences:
            return
        name = str(paths.value_at(self._obj, ("metadata", "name")))
        if value is None or value in [
            each.replace("{name}", name) if isinstance(each, str) else each for each in field.harmless
        ]:
            self._note(path, "", "left out: it has no effect")
            return
        self._differences[path] = Difference(
            path, _shown(value), field.instead, field.fix, field.changes_service
        )

    def _put(self, kind: str, steps: Steps, value: Any, source: Steps) -> bool:
        """Returns whether the kind has such a field, and it is not taken already by another one."""
        unknown = _unknown(_schemas()[self._resource(kind)], steps)
        if unknown is not None:
            origin = source[: len(source) - (len(steps) - unknown)]
            path = paths.written(origin)
            told = f"{kind} of {self._resource(kind).group} has no such field, so it is left out"
            shown = _shown(paths.value_at(self._obj, origin))
            self._differences.setdefault(path, Difference(path, shown, told))
            return False
        held = _put(self._made[kind], steps, value)
        if held is not ABSENT and held != value:
            path = paths.written(source)
            told = f"{paths.written(steps)} can have one value only, and is {_shown(held)}"
            self._differences[path] = Difference(path, _shown(value), told)
            return False
        return True

    def _resource(self, kind: str) -> Resource:
        return next(each.resource for each in self._form.outputs if each.resource.kind == kind)

    def _set(self, output: Output, content: Object) -> None:
        for setting in output.settings:
            steps = paths.parsed(setting.path)
            if paths.value_at(content, steps) is not ABSENT:
                continue
            if setting.needs and paths.value_at(self._obj, paths.parsed(setting.needs)) is ABSENT:
                continue
            value = _text(setting.value, {**content, "metadata": self._obj.get("metadata")})
            if value is not ABSENT and _put(content, steps, value) is ABSENT:
                kind = "" if output.resource.kind == self._main else f"{output.resource.kind} "
                told = f"set to {_shown(value)}{f': {setting.why}' if setting.why else ''}"
                self._note("", f"{kind}{setting.path}", told)


def _text(value: Any, content: Mapping[str, Any]) -> Any:
    """A text with the fields that it names; ABSENT if one is missing."""
    if not isinstance(value, str):
        return value
    found = {name: paths.value_at(content, paths.parsed(name)) for name in _PLACEHOLDER.findall(value)}
    if ABSENT in found.values():
        return ABSENT
    return _PLACEHOLDER.sub(lambda match: str(found[match[1]]), value)


def _put(content: Object, steps: Steps, value: Any) -> Any:
    """Set a field; returns the value that it had. Lists and mappings on the way are made, unless something
    else is there: then that is returned, and nothing is set."""
    inner: Any = content
    for step, following in zip(steps, (*steps[1:], None), strict=True):
        if isinstance(inner, list) and isinstance(step, int):
            inner.extend([ABSENT] * (step + 1 - len(inner)))
        elif not isinstance(inner, dict) or isinstance(step, int):
            return inner
        held = paths.value_at(inner, (step,))
        if held is ABSENT:
            held = value if following is None else [] if isinstance(following, int) else {}
            inner[step] = held
            if following is None:
                return ABSENT
        inner = held
    return inner


def _compact(value: Any) -> Any:
    """Without the list items that were left out."""
    if isinstance(value, dict):
        return {key: _compact(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_compact(inner) for inner in value if inner is not ABSENT]
    return value


@functools.cache
def _schemas() -> Mapping[Resource, Mapping[str, Any]]:
    """The schemas of Headgate's own kinds."""
    found = {}
    for definition in definitions.custom_definitions():
        spec = definition["spec"]
        names, version = spec["names"], spec["versions"][0]
        resource = Resource(spec["group"], version["name"], names["kind"], names["plural"])
        found[resource] = version["schema"]["openAPIV3Schema"]
    return found


def _unknown(schema: Mapping[str, Any], steps: Steps) -> int | None:
    """How many steps lead to the first field that the schema does not have; None if it has all of them."""
    for number, step in enumerate(steps, 1):
        if schema.get(_KEEP):
            return None
        inner = schema.get("items") if isinstance(step, int) else (schema.get("properties") or {}).get(step)
        if inner is None and isinstance(step, str):
            inner = schema.get("additionalProperties")
        if not isinstance(inner, dict):
            # A list where a mapping belongs is for validation to report.
            is_misplaced = isinstance(step, int) or not (schema.get("properties") or schema.get(_KEEP))
            return None if is_misplaced else number
        schema = inner
    return None


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."


def remarks(obj: Object, table: Iterable[Remark]) -> Iterator[Difference]:
    """What is different about fields of an object of Headgate's kinds."""
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    identity = obj.get("apiVersion"), obj.get("kind")
    for remark in table:
        if identity != (remark.resource.api_version, remark.resource.kind):
            continue
        if any(name in (annotations or {}) for name in remark.without):
            continue
        for steps in paths.places(obj, paths.parsed(remark.path)):
            value = paths.value_at(obj, steps)
            if not remark.values or value in remark.values:
                yield Difference(
                    paths.written(steps), _shown(value), remark.instead, remark.fix, remark.changes_service
                )
