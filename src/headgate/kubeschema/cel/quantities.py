"""What Kubernetes gives to CEL for quantities: `quantity(self.memory).isLessThan(quantity("1Gi"))`.

Inside an expression a quantity is a map with one entry, because the engine hands only plain values on; two
that say the same number are equal, whatever their suffixes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headgate.kubeschema import quantity
from headgate.kubeschema.quantity import Quantity

__all__ = ["FUNCTIONS"]

Packed = dict[str, str]

_ENTRY: Final = "quantity"
_INT64: Final = 1 << 63


def _packed(value: Quantity) -> Packed:
    return {_ENTRY: f"{value.unscaled}e{value.exponent}"}


def _unpacked(value: Packed | int) -> Quantity:
    """The quantity, or that of an integer, which `add` and `sub` take as well."""
    if isinstance(value, int):
        return Quantity(value)
    unscaled, _, exponent = value[_ENTRY].partition("e")
    return Quantity(int(unscaled), int(exponent))


def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except quantity.QuantityError:
        return False
    return True


def _is_integer(value: Packed) -> bool:
    found = _unpacked(value)
    return found.exponent >= 0 and -Quantity(_INT64) <= found < Quantity(_INT64)


def _as_integer(value: Packed) -> int:
    if not _is_integer(value):
        raise quantity.QuantityError("cannot convert value to integer")
    return _unpacked(value).rounded_up()


def _compared(left: Packed, right: Packed) -> int:
    one, other = _unpacked(left), _unpacked(right)
    return (one > other) - (one < other)


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "quantity": lambda text: _packed(quantity.parse(text)),
    "isQuantity": _is_quantity,
    "isInteger": _is_integer,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda value: float(_unpacked(value)),
    "sign": lambda value: _compared(value, _packed(Quantity(0))),
    "isLessThan": lambda left, right: _compared(left, right) < 0,
    "isGreaterThan": lambda left, right: _compared(left, right) > 0,
    "compareTo": _compared,
    "add": lambda left, right: _packed(_unpacked(left) + _unpacked(right)),
    "sub": lambda left, right: _packed(_unpacked(left) - _unpacked(right)),
}
"""By name; the receiver of a method is the first argument. What they raise is an error of the expression."""
