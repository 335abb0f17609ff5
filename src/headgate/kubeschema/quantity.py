"""Kubernetes quantities ("500m", "1536Mi", "2e3"): exact numbers with a suffix.

Parsing, formatting and rounding follow `resource.Quantity` of k8s.io/apimachinery, with its error messages: a
number is exact down to a billionth (n), finer ones are rounded away from zero, binary suffixes are capped at
2^63-1, and a quantity is printed in the family of suffixes that it was read in. Three cases differ from Go:
texts longer than 1,000 characters and exponents beyond 32 bits (Go wraps them around) are rejected, and sums
beyond Ei keep their suffix (Go loses it).
"""

from __future__ import annotations

import enum
import functools
import re
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["POSITIVE", "SCHEMA", "Format", "Quantity", "QuantityError", "parse"]

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = ["", *_BINARY]

_SCANNER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,20})")
_NANO = -9
_INT64_DIGITS = 18
_LARGEST_BINARY = (1 << 63) - 1
_LONGEST_TEXT = 1_000
_MAX_DIGITS = 4_000

_FORMAT_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_NUMERIC = "unable to parse numeric part of quantity"
_SUFFIX = "unable to parse quantity's suffix"

SCHEMA: Final[dict[str, Any]] = {
    "x-kubernetes-int-or-string": True,
    "pattern": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
}
"""Schema of a field that holds a quantity, as text or as an integer."""

POSITIVE: Final[dict[str, Any]] = SCHEMA | {
    "minimum": 1,
    "pattern": r"^[+]?([0-9]*[1-9][0-9]*(\.[0-9]*)?|[0-9]*\.[0-9]*[1-9][0-9]*)"
    r"([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
}
"""Schema of a quantity above 0: some digit of it is not 0. As a rule in CEL, for lists of any length, an API
server would reject it for its cost."""


class QuantityError(ValueError):
    """The text is not a quantity, or a result has unreasonably many digits."""


class Format(enum.Enum):
    """The family of suffixes in which a quantity is printed."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


@functools.total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """The number unscaled * 10**exponent. Equality ignores the format."""

    unscaled: int
    exponent: int = 0
    format: Format = Format.DECIMAL_SI
    text: str = ""
    """The text it was read from, where Go prints that again although it may not be the canonical form."""

    def __post_init__(self) -> None:
        digits = str(self.unscaled)
        zeros = len(digits) - len(digits.rstrip("0")) if self.unscaled else 0
        object.__setattr__(self, "unscaled", int(digits[:-zeros]) if zeros else self.unscaled)
        object.__setattr__(self, "exponent", self.exponent + zeros if self.unscaled else 0)

    def __str__(self) -> str:
        """As Kubernetes writes it into objects."""
        return self.text or self.canonical()

    def canonical(self) -> str:
        """With the largest suffix of the format that leaves no fraction: 1.5Gi is 1536Mi."""
        if not self.unscaled:
            return "0"
        if self.format is Format.BINARY_SI and self.exponent >= 0 and abs(self) >= Quantity(1024):
            return _binary_text(_shifted(self.unscaled, self.exponent))
        spare = self.exponent % 3
        exponent = self.exponent - spare
        if self.format is not Format.DECIMAL_EXPONENT and exponent in _DECIMAL_SUFFIX:
            suffix = _DECIMAL_SUFFIX[exponent]
        else:
            suffix = f"e{exponent}" if exponent else ""
        return f"{self.unscaled * 10**spare}{suffix}"

    def rounded_up(self, exponent: int = 0) -> int:
        """The number in units of 10**exponent, rounded away from zero: 0 for Value(), -3 for MilliValue()."""
        shift = self.exponent - exponent
        magnitude = abs(self.unscaled)
        result = _shifted(magnitude, shift) if shift >= 0 else _divided(magnitude, -shift)
        return -result if self.unscaled < 0 else result

    def __float__(self) -> float:
        """The nearest float; infinite beyond the range of floats."""
        return float(f"{self.unscaled}e{self.exponent}")

    def __bool__(self) -> bool:
        return self.unscaled != 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return (self.unscaled, self.exponent) == (other.unscaled, other.exponent)

    def __hash__(self) -> int:
        return hash((self.unscaled, self.exponent))

    def __lt__(self, other: Quantity) -> bool:
        if self._sign != other._sign:
            return self._sign < other._sign
        # avoids computing powers of ten for numbers of different length
        if self._magnitude != other._magnitude:
            return (self._magnitude < other._magnitude) == (self._sign > 0)
        left, right, _ = _aligned(self, other)
        return left < right

    def __add__(self, other: Quantity) -> Quantity:
        left, right, exponent = _aligned(self, other)
        return Quantity(left + right, exponent, self.format if self else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return self + -other

    def __mul__(self, factor: int) -> Quantity:
        return Quantity(self.unscaled * factor, self.exponent, self.format)

    def __neg__(self) -> Quantity:
        return Quantity(-self.unscaled, self.exponent, self.format)

    def __abs__(self) -> Quantity:
        return Quantity(abs(self.unscaled), self.exponent, self.format)

    @property
    def _sign(self) -> int:
        return (self.unscaled > 0) - (self.unscaled < 0)

    @property
    def _magnitude(self) -> int:
        """The number of digits before the decimal point."""
        return len(str(abs(self.unscaled))) + self.exponent


def parse(value: int | str) -> Quantity:
    """Parse a quantity as in objects, text or an integer. Raises QuantityError with Go's message."""
    text = str(value)
    return _known(text) if len(text) <= _SHORT_TEXT else _read(text)


_SHORT_TEXT = 32
"""Objects repeat the same few amounts; longer texts are not cached."""


@functools.lru_cache(maxsize=1024)
def _known(text: str) -> Quantity:
    return _read(text)


def _read(text: str) -> Quantity:
    match = _SCANNER.fullmatch(text) if text else None
    if match is None:
        raise QuantityError(_FORMAT_WRONG)
    sign, whole, fraction, suffix = match.groups(default="")
    exponent, format = _interpreted(suffix)
    if len(text) > _LONGEST_TEXT:
        raise QuantityError(_NUMERIC)
    number = whole.lstrip("0") or "0"
    if _is_short(number, fraction, exponent, format):
        found = _short(number + fraction, exponent, len(fraction), format, text)
    elif not whole and not fraction:
        raise QuantityError(_NUMERIC)
    else:
        found = _long(int(number + fraction), exponent, len(fraction), format)
    if sign != "-":
        return found
    return Quantity(-found.unscaled, found.exponent, found.format, found.text)


def _interpreted(suffix: str) -> tuple[int, Format]:
    """The exponent of 10, or of 2 for binary suffixes."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], Format.DECIMAL_SI
    if suffix in _BINARY:
        return _BINARY[suffix], Format.BINARY_SI
    match = _EXPONENT.fullmatch(suffix)
    exponent = int(match[1]) if match else 1 << 31
    if not -(1 << 31) <= exponent < 1 << 31:
        raise QuantityError(_SUFFIX)
    return exponent, Format.DECIMAL_EXPONENT


def _is_short(number: str, fraction: str, exponent: int, format: Format) -> bool:
    """Whether Go keeps the number in an int64, and with it the original text."""
    if format is Format.BINARY_SI:
        return not fraction and len(number) + exponent * 3 // 10 < 15
    return len(number) + len(fraction) <= _INT64_DIGITS and exponent - len(fraction) >= _NANO


def _short(digits: str, exponent: int, places: int, format: Format, text: str) -> Quantity:
    value = int(digits)
    if format is Format.BINARY_SI:
        return Quantity(value << exponent, 0, format, text if value & 7 else "")
    keeps_text = (exponent - places) % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    return Quantity(value, exponent - places, format, text if keeps_text else "")


def _long(value: int, exponent: int, places: int, format: Format) -> Quantity:
    """Rounded up to nano; binary values are capped, and a binary fraction below one becomes decimal."""
    scale = -places
    if format is Format.BINARY_SI:
        value <<= exponent
    else:
        scale += exponent
    if scale < _NANO:
        value, scale = _divided(value, _NANO - scale), _NANO
    if format is Format.BINARY_SI:
        one = 10**-scale
        value = min(value, _LARGEST_BINARY * one)
        if 0 < value < one:
            format = Format.DECIMAL_SI
    return Quantity(value, scale, format)


def _divided(value: int, places: int) -> int:
    """A natural number / 10**places, rounded up, without computing a power that is larger than the number."""
    if places > len(str(value)):
        return 1 if value else 0
    return -(-value // int(10**places))


def _shifted(value: int, places: int) -> int:
    """An integer * 10**places; raises QuantityError for an unreasonably long result."""
    if not value:
        return 0
    if places > _MAX_DIGITS - len(str(value)):
        raise QuantityError(f"{value}e{places} has more than {_MAX_DIGITS} digits")
    return value * int(10**places)


def _aligned(left: Quantity, right: Quantity) -> tuple[int, int, int]:
    """Both numbers in units of the finer one, and the exponent of that unit."""
    exponent = min((each.exponent for each in (left, right) if each), default=0)
    return (
        _shifted(left.unscaled, max(0, left.exponent - exponent)),
        _shifted(right.unscaled, max(0, right.exponent - exponent)),
        exponent,
    )


def _binary_text(value: int) -> str:
    step = 0
    while value % 1024 == 0 and step + 1 < len(_BINARY_SUFFIX):
        value //= 1024
        step += 1
    return f"{value}{_BINARY_SUFFIX[step]}"
