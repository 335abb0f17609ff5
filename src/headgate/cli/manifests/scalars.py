"""Resolve unquoted YAML scalars as Kubernetes does: YAML 1.1, read by its own parser.

It differs from most parsers: a date stays text, 1:30 is text, 1e3 is a number, and y is a boolean. Every
value becomes one that JSON can express, as on its way to an API server.
"""

import math
import re
from typing import TypeAlias

Value: TypeAlias = "bool | int | float | str | None"

_TRUE = frozenset({"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE = frozenset({"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_NOT_FINITE = frozenset(
    f"{sign}.{word}" for sign in ("", "+", "-") for word in ("inf", "Inf", "INF", "nan", "NaN", "NAN")
)
_INTEGER = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BASES = {"x": 16, "b": 2, "o": 8}
_LONGEST_NUMBER = 400
_WHOLE_BELOW = float(1 << 63)
"""Below this, floats without a fraction become integers; beyond 64 bits JSON parsers use floats too."""
_LARGEST = 1e308


class NotJson(ValueError):  # noqa: N818 - reads as what it says
    """JSON cannot express the value: an infinity, or not a number."""


def resolve(text: str) -> Value:
    """The value of an unquoted scalar; raises NotJson."""
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text in _NOT_FINITE:
        raise NotJson(text)
    number = _number(text)
    return text if number is None else number


def as_json(number: float) -> int | float:
    """The number as written in JSON, where 50.0 becomes 50; raises NotJson."""
    if not math.isfinite(number):
        raise NotJson(repr(number))
    return int(number) if number.is_integer() and abs(number) < _WHOLE_BELOW else number


def _number(text: str) -> int | float | None:
    if text[0] not in "0123456789+-." or len(text) > _LONGEST_NUMBER:
        return None
    digits = text.replace("_", "")
    whole = _INTEGER.fullmatch(digits)
    if whole and text[0] != ".":
        value = _integer(whole[1], whole[2])
        if -(1 << 63) <= value < 1 << 64:
            return value
        return float(value) if abs(value) < _LARGEST else None
    if not _FLOAT.fullmatch(digits) or not math.isfinite(float(digits)):
        return None
    return as_json(float(digits))


def _integer(sign: str, digits: str) -> int:
    if len(digits) > 1 and digits[0] == "0":
        base = _BASES.get(digits[1].lower(), 8)
        value = int(digits[2:] if digits[1].lower() in _BASES else digits, base)
    else:
        value = int(digits)
    return -value if sign == "-" else value
