"""Field errors with Kubernetes' messages (k8s.io/apimachinery/pkg/util/validation/field)."""

from __future__ import annotations

import decimal
import json
import math
import re
from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

__all__ = [
    "MAX_ERRORS",
    "NO_FIELD",
    "OMITTED",
    "FieldError",
    "Findings",
    "MapKey",
    "Path",
    "TooManyErrors",
    "dotted",
    "in_order",
    "keyed",
]

MAX_ERRORS: Final = 100
NO_FIELD: Final = "<nil>"
"""What Kubernetes prints for a cause that concerns the whole object."""

_LONGEST_VALUE = 1024
_PREFIXES = {
    "FieldValueInvalid": "Invalid value",
    "FieldValueTypeInvalid": "Invalid value",
    "FieldValueRequired": "Required value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueNotFound": "Not found",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
}
_WITHOUT_VALUE = frozenset({"FieldValueRequired", "FieldValueForbidden", "FieldValueTooLong"})
_NUMBER_IN_PATH = re.compile(r"(\d+)")


class _Omitted:
    """The type of OMITTED."""

    def __repr__(self) -> str:
        return "OMITTED"


OMITTED: Final = _Omitted()
"""As the value of an error: do not print a value."""


class FieldError(msgspec.Struct, frozen=True):
    """One cause of a rejection; `reason` is the type of a Status cause, `field` its path."""

    reason: str
    field: str
    detail: str
    value: object = OMITTED

    def body(self) -> str:
        """The message of a Status cause, which has the field separately."""
        text = _PREFIXES[self.reason]
        if self.reason not in _WITHOUT_VALUE and self.value is not OMITTED:
            text = f"{text}: {shown(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def message(self) -> str:
        """The whole line, as kubectl prints it."""
        return f"{self.field}: {self.body()}"


class TooManyErrors(Exception):  # noqa: N818 - it ends a walk, not an error
    """More errors were found than anyone would read."""


class Findings:
    """The errors found so far, at most `limit`; the next one ends the walk."""

    def __init__(self, limit: int = MAX_ERRORS) -> None:
        self.errors: list[FieldError] = []
        self._limit = limit

    def add(self, reason: str, field: str, detail: str, value: object = OMITTED) -> None:
        self.extend((FieldError(reason, field, detail, value),))

    def extend(self, errors: Iterable[FieldError]) -> None:
        for error in errors:
            if len(self.errors) >= self._limit:
                raise TooManyErrors
            self.errors.append(error)


def in_order(errors: list[FieldError]) -> list[FieldError]:
    """By path with [2] before [10], so that the same object always gets the same message."""
    return sorted(errors, key=lambda error: _natural(error.field))


def _natural(path: str) -> list[tuple[int, str]]:
    parts = _NUMBER_IN_PATH.split(path)
    return [(int(part[:18]), part) if index % 2 else (0, part) for index, part in enumerate(parts)]


def shown(value: object) -> str:
    """A value as Go prints it in an error; long ones are truncated."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, float):
        return number(value)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=str)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "..."


def quoted(text: str) -> str:
    """Go's %q for the text in Kubernetes objects."""
    short = text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "..."
    return re.sub(r"\\u00([0-9a-f]{2})", r"\\x\1", json.dumps(short, ensure_ascii=False))


def number(value: float) -> str:
    """Go's %v of a number: 65535, 1.5, and 1e+06 for a float of seven digits."""
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}[str(value)]
    digits = f"{decimal.Decimal(repr(value)):e}"
    mantissa, _, exponent = digits.partition("e")
    if -4 <= int(exponent) < 6:
        return repr(value).removesuffix(".0")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(exponent):+03d}"


# The path of a value, as a chain of steps that is rendered only for an error.
class MapKey(str):
    """A key of a map (under additionalProperties), which Kubernetes prints in two ways."""

    __slots__ = ()


Path: TypeAlias = "tuple[Path, str | int] | None"
"""The parent's path and the last step: a property, a MapKey or an index; None is the object itself."""


def dotted(path: Path) -> str:
    """As schema errors print it: spec.modelMatch.headers.x-user.exact."""
    return _render(path, brackets=False)


def keyed(path: Path) -> str:
    """As rules and list types print it: spec.modelMatch.headers[x-user].exact."""
    return _render(path, brackets=True)


def _render(path: Path, *, brackets: bool) -> str:
    steps: list[str] = []
    while path is not None:
        path, step = path
        if isinstance(step, int) or (brackets and isinstance(step, MapKey)):
            steps.append(f"[{step}]")
        else:
            steps.append(f".{step}")
    return "".join(reversed(steps)).removeprefix(".")
