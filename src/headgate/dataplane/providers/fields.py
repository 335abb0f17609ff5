"""Reads the fields of a struct one by one, so that all that is wrong with them is told at once."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

Report = Callable[[str, str], None]
"""Takes the path of a field, and what is wrong with it."""

_SECRET: Final = frozenset({"url", "key"})
"""Fields whose values are not repeated: they may have a key, by mistake."""
_MAX_SHOWN: Final = 64


def read(
    kind: type[msgspec.Struct], value: object, needed: Mapping[str, str], report: Report, path: str = ""
) -> dict[str, Any]:
    """The fields that have a valid value, or a default one.

    `needed` tells by path what a field needs.
    """
    if not isinstance(value, dict):
        report(path, needed[path])
        return {}
    found: dict[str, Any] = {}
    known = {field.name: field for field in msgspec.structs.fields(kind)}
    for name in value:
        if name not in known:
            report(path, _unknown(str(name), list(known), path))
    for name, field in known.items():
        place = f"{path}.{name}" if path else name
        if name not in value:
            if field.required:
                report(place, f"it is missing: {needed[place]}")
            else:
                found[name] = field.default
        elif (inner := _struct(field.type)) is not None and value[name] is not None:
            told: list[str] = []
            made = read(inner, value[name], needed, _both(report, told), place)
            if not told:
                found[name] = inner(**made)
        else:
            try:
                found[name] = msgspec.convert(value[name], field.type)
            except msgspec.ValidationError:
                report(place, _shown(value[name], place) + needed[place])
    return found


def _both(report: Report, told: list[str]) -> Report:
    """Also notes that something was reported."""

    def report_both(path: str, why: str) -> None:
        told.append(why)
        report(path, why)

    return report_both


def _struct(kind: Any) -> type[msgspec.Struct] | None:
    """The struct that a type is, or may be."""
    kinds = typing.get_args(kind) or (kind,)
    return next((k for k in kinds if isinstance(k, type) and issubclass(k, msgspec.Struct)), None)


def _unknown(name: str, known: list[str], path: str) -> str:
    if path in _SECRET:
        return f"unknown field: it has {', '.join(known)}"
    close = difflib.get_close_matches(name, known, 1)
    guess = f"; did you mean `{close[0]}`?" if close else f": the fields are {', '.join(known)}"
    return f"unknown field `{name[:_MAX_SHOWN]}`{guess}"


def _shown(value: object, path: str) -> str:
    if path.partition(".")[0] in _SECRET or isinstance(value, dict | list):
        return ""
    return f"{value!r:.{_MAX_SHOWN}}: "
