"""Label and field selectors of lists and watches, parsed once per request and matched against objects."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from headgate.apiserver import errors
from headgate.apiserver.registry import Served
from headgate.apiserver.storage import Key, Stored

MAX_LENGTH = 16_384
MAX_REQUIREMENTS = 100
"""Each is evaluated for each object of a list, and for each event of a watch."""

REQUIREMENT_BYTES = 64
"""Cost of a label requirement, in bytes of objects that could be read instead."""
FIELD_BYTES = 512
"""Cost of a field requirement, besides parsing the object again."""

_KEY = r"(?:[A-Za-z0-9.-]{1,253}/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
_REQUIREMENT = re.compile(
    rf"""\s*+(?:
      (?P<key>{_KEY})\s*+(?P<op>==|=|!=)\s*+(?P<value>{_VALUE})
    | (?P<set_key>{_KEY})\s++(?P<set_op>in|notin)\s*+\((?P<values>[^()]*+)\)
    | (?P<number_key>{_KEY})\s*+(?P<compare>[<>])\s*+(?P<number>-?[0-9]{{1,18}})
    | (?P<absent>!)?\s*+(?P<exists>{_KEY})
    )\s*+(?:,|$)""",
    re.VERBOSE,
)
_FIELD = re.compile(r"\s*+(?P<path>[^=!,\s]++)\s*+(?P<op>==|=|!=)\s*+(?P<value>(?:\\.|[^,\\])*+)(?:,|$)")
# Repetitions are possessive, so that no text takes more than one pass.

Labels = dict[str, str]


class _Metadata(msgspec.Struct):
    labels: Labels = {}


class _Labelled(msgspec.Struct):
    metadata: _Metadata


_DECODE_LABELS = msgspec.json.Decoder(_Labelled)
_SHARED_BYTES = 16 * 1024
"""The parsed parts of larger objects are shared by all of their watchers."""


class _Content:
    """The parts of one object's JSON that selectors use, each parsed on first use."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._texts: dict[Selectable, str] = {}

    @functools.cached_property
    def labels(self) -> Labels:
        return _DECODE_LABELS.decode(self._body).metadata.labels

    def text(self, field: Selectable) -> str:
        """The value of a field, as selectors write it."""
        if field not in self._texts:
            self._texts[field] = _text(_value(self._body, field.path), field)
        return self._texts[field]


_shared_content = functools.lru_cache(maxsize=8)(_Content)


def _content(body: bytes) -> _Content:
    return _shared_content(body) if len(body) > _SHARED_BYTES else _Content(body)


@functools.lru_cache(maxsize=256)
def _decoder(path: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """Decodes one field of an object and skips the others."""
    type_: Any = Any
    for name in reversed(path):
        type_ = msgspec.defstruct("Part", [("value", type_ | None, None)], rename={"value": name})
    return msgspec.json.Decoder(type_)


def _value(body: bytes, path: tuple[str, ...]) -> Any:
    try:
        found = _decoder(path).decode(body)
    except msgspec.ValidationError:  # the path leads through a value without fields
        return None
    for _ in path:
        found = found.value if found is not None else None
    return found


@dataclass(frozen=True)
class Selector:
    """The selector of a list or watch. An empty one matches everything at no cost."""

    labels: tuple[Callable[[Labels], bool], ...] = ()
    fields: tuple[tuple[Selectable, bool, str], ...] = ()
    """Field, whether it must be equal, value."""

    def __bool__(self) -> bool:
        return bool(self.labels or self.fields)

    @property
    def name(self) -> str | None:
        """The only name that can match, if the selector requires one; turns a list into a lookup."""
        for field, equal, value in self.fields:
            if field.path == ("metadata", "name") and equal:
                return value
        return None

    def cost(self, size: int) -> int:
        """The maximum cost of matching an object of this size, in bytes that could be read instead."""
        return REQUIREMENT_BYTES * len(self.labels) + (size + FIELD_BYTES) * len(self.fields)

    def matches(self, stored: Stored | None) -> bool:
        if stored is None:
            return False
        content = _content(stored.body)
        if self.labels and not all(requirement(content.labels) for requirement in self.labels):
            return False
        return all(
            (_field(stored.key, content, field) == value) is equal for field, equal, value in self.fields
        )


def parse(labels: str | None, fields: str | None, selectable: Fields) -> Selector:
    """The selector of a request; 400 with Kubernetes' message for an invalid one."""
    if len(labels or "") > MAX_LENGTH or len(fields or "") > MAX_LENGTH:
        raise errors.bad_request(f"a selector may have {MAX_LENGTH} characters")
    return Selector(_label_requirements(labels or ""), _field_requirements(fields or "", selectable))


def _label_requirements(text: str) -> tuple[Callable[[Labels], bool], ...]:
    requirements = []
    position = 0
    while position < len(text) and text.strip():
        if not (match := _REQUIREMENT.match(text, position)):
            raise errors.bad_request(
                f"unable to parse requirement: found {text[position : position + 64]!r}, expected: "
                "key, key=value, key!=value, key in (a,b), key notin (a,b), key, !key"
            )
        requirements.append(_label_requirement(match))
        _check_number(requirements)
        position = match.end()
    if text.rstrip().endswith(","):
        raise errors.bad_request("found '', expected: identifier after ','")
    return tuple(requirements)


def _check_number(requirements: Sequence[object]) -> None:
    if len(requirements) > MAX_REQUIREMENTS:
        raise errors.bad_request(f"a selector may have {MAX_REQUIREMENTS} requirements")


def _label_requirement(match: re.Match[str]) -> Callable[[Labels], bool]:
    found = match.groupdict()
    if key := found["key"]:
        value = found["value"]
        if found["op"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if key := found["set_key"]:
        values = {value.strip() for value in found["values"].split(",")}
        if found["set_op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if key := found["number_key"]:
        bound, above = int(found["number"]), found["compare"] == ">"
        return lambda labels: _compares(labels.get(key), bound, above)
    key, wanted = found["exists"], not found["absent"]
    return lambda labels: (key in labels) is wanted


def _compares(value: str | None, bound: int, above: bool) -> bool:
    try:
        number = int(value or "")
    except ValueError:
        return False
    return number > bound if above else number < bound


def _field_requirements(text: str, selectable: Fields) -> tuple[tuple[Selectable, bool, str], ...]:
    requirements = []
    position = 0
    while position < len(text) and text.strip():
        if not (match := _FIELD.match(text, position)):
            part = text[position : position + 64].partition(",")[0]
            raise errors.bad_request(f"invalid selector: '{text[:256]}'; can't understand '{part}'")
        label = match["path"]
        if (field := selectable.by_label.get(label)) is None:
            raise errors.bad_request(selectable.refusal(label))
        value = re.sub(r"\\(.)", r"\1", match["value"].rstrip())
        requirements.append((field, match["op"] != "!=", value))
        _check_number(requirements)
        position = match.end()
    return tuple(requirements)


def _field(key: Key, content: _Content, field: Selectable) -> str:
    """The value of a field, as selectors write it; name and namespace come from the key."""
    match field.path:
        case ("metadata", "name"):
            return key.name
        case ("metadata", "namespace"):
            return key.namespace
    return content.text(field)


def _text(value: Any, field: Selectable) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return field.absent if value is None else str(value)


# Fields that a field selector may use: those of metadata, Kubernetes' own, and those of a definition.
class Selectable(NamedTuple):
    """The path of a field, and its value if it is not set."""

    path: tuple[str, ...]
    absent: str = ""


class Fields(NamedTuple):
    """The selectable fields of a kind by label, and the error for other labels."""

    by_label: Mapping[str, Selectable]
    unknown: str

    def refusal(self, label: str) -> str:
        return self.unknown.format(label=label)


_NOT_SUPPORTED = "field label not supported: {label}"
_NOT_KNOWN = '"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def _paths(*labels: str, **absent: str) -> dict[str, Selectable]:
    return {
        label: Selectable(tuple(label.split(".")), absent.get(label.split(".")[-1], "")) for label in labels
    }


_EVENT = _paths(
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "type",
) | {"source": Selectable(("source", "component"))}
_BUILTIN: dict[str, dict[str, Selectable]] = {
    "pods": _paths(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
        hostNetwork="false",
    ),
    "namespaces": _paths("status.phase"),
    "nodes": _paths("spec.unschedulable", unschedulable="false"),
    "secrets": _paths("type"),
    "services": _paths("spec.clusterIP", "spec.type", type="ClusterIP"),
    "events": _EVENT,
}


def selectable_fields(served: Served) -> Fields:
    """The selectable fields of a kind."""
    common = _paths("metadata.name", "metadata.namespace") if served.namespaced else _paths("metadata.name")
    own = _BUILTIN.get(served.resource) if not served.custom else None
    if own is None:
        declared = {".".join(path): Selectable(path) for path in served.selectable_fields}
        return Fields(common | declared, _NOT_SUPPORTED if served.custom else _NOT_KNOWN)
    return Fields(common | own, _NOT_SUPPORTED)
