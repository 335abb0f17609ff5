"""Label and field selectors of lists and watches, parsed once per request and matched against objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from headgate.apiserver import errors
from headgate.apiserver.fields import Fields, Selectable
from headgate.apiserver.storage import Stored

MAX_LENGTH = 16_384
MAX_REQUIREMENTS = 100
"""Each is looked at for each object of a list, and for each event of a watch."""

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
# What repeats is possessive, so that no text takes more than one pass.

Labels = dict[str, str]


class _Metadata(msgspec.Struct):
    labels: Labels = {}


class _Labelled(msgspec.Struct):
    metadata: _Metadata


_DECODE_LABELS = msgspec.json.Decoder(_Labelled)


@dataclass(frozen=True)
class Selector:
    """What a list or watch was narrowed to. An empty selector matches everything at no cost."""

    labels: tuple[Callable[[Labels], bool], ...] = ()
    fields: tuple[tuple[Selectable, bool, str], ...] = ()
    """Field, whether it must be equal, value."""

    def __bool__(self) -> bool:
        return bool(self.labels or self.fields)

    @property
    def name(self) -> str | None:
        """The one name that can match, if the selector says so; lets a list be a lookup."""
        for field, equal, value in self.fields:
            if field.path == ("metadata", "name") and equal:
                return value
        return None

    def matches(self, stored: Stored | None) -> bool:
        if stored is None:
            return False
        if self.labels:
            labels = _DECODE_LABELS.decode(stored.body).metadata.labels
            if not all(requirement(labels) for requirement in self.labels):
                return False
        return not self.fields or self._fields_match(stored)

    def _fields_match(self, stored: Stored) -> bool:
        obj = stored.decode()
        return all((_text(obj, field) == value) is equal for field, equal, value in self.fields)


def parse(labels: str | None, fields: str | None, selectable: Fields) -> Selector:
    """The selector of a request; 400 with Kubernetes' words for one that it would not take."""
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


def _text(obj: Any, field: Selectable) -> str:
    """The value of a field as a selector writes it."""
    for name in field.path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    if isinstance(obj, bool):
        return "true" if obj else "false"
    return field.absent if obj is None else str(obj)
