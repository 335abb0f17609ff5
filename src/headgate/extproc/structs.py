"""`google.protobuf.Struct`: JSON objects as protobuf, in the metadata and attributes of messages.

They are decoded only when somebody asks for them, since most messages have none that matter.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from headgate.protobuf_wire import (
    BYTES,
    FIXED64,
    VARINT,
    Value,
    WireError,
    delimited,
    fields,
    number_field,
    varint,
)

MAX_DEPTH: Final = 16
MAX_VALUES: Final = 10_000
"""Per struct, at all depths."""
MAX_NAMESPACES: Final = 1000

_NULL, _NUMBER, _TEXT, _BOOL, _STRUCT, _LIST = 1, 2, 3, 4, 5, 6
_FILTER_METADATA: Final = 1


def metadata(encoded: bytes, namespace: str) -> dict[str, Any] | None:
    """The dynamic metadata of one namespace in an encoded `Metadata`; None if there is none. Raises
    WireError."""
    found: dict[str, Any] | None = None
    for count, (number, wire_type, value) in enumerate(fields(memoryview(encoded))):
        if count >= MAX_NAMESPACES:
            raise WireError(f"metadata have more than {MAX_NAMESPACES} namespaces")
        if number == _FILTER_METADATA:
            name, content = _entry(wire_type, value)
            if name == namespace:
                found = _Reader().struct(content, 0)
    return found


def attributes(encoded: bytes) -> dict[str, Any]:
    """The attributes of all namespaces together, by their names. Raises WireError."""
    found: dict[str, Any] = {}
    for _, wire_type, value in fields(memoryview(encoded)):
        _, content = _entry(wire_type, value)
        found |= _Reader().struct(content, 0)
    return found


def encode_metadata(namespaces: Mapping[str, Mapping[str, Any]]) -> bytes:
    """An encoded `Metadata`."""
    return b"".join(
        delimited(_FILTER_METADATA, delimited(1, name.encode()) + delimited(2, encode_struct(content)))
        for name, content in namespaces.items()
    )


def encode_struct(content: Mapping[str, Any]) -> bytes:
    """An encoded `Struct`. Raises TypeError for a value that JSON does not have."""
    return b"".join(
        delimited(1, delimited(1, name.encode()) + delimited(2, _value(value)))
        for name, value in content.items()
    )


def _value(value: object) -> bytes:
    match value:
        case None:
            return number_field(_NULL, 0)
        case bool():
            return number_field(_BOOL, value)
        case int() | float():
            return varint(_NUMBER << 3 | FIXED64) + struct.pack("<d", value)
        case str():
            return delimited(_TEXT, value.encode())
        case Mapping():
            return delimited(_STRUCT, encode_struct(value))
        case Sequence():
            return delimited(_LIST, b"".join(delimited(1, _value(each)) for each in value))
    raise TypeError(f"a Struct cannot contain a {type(value).__name__}")


def _entry(wire_type: int, value: Value) -> tuple[str, memoryview]:
    """Key and value of a map whose values are messages."""
    key, content = "", memoryview(b"")
    for number, inner_type, inner in fields(_bytes(wire_type, value)):
        if number == 1:
            key = _text(inner_type, inner)
        elif number == 2:
            content = _bytes(inner_type, inner)
    return key, content


class _Reader:
    """Decodes one struct, and counts its values."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def struct(self, data: memoryview, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for number, wire_type, value in fields(data):
            if number == 1:
                key, content = _entry(wire_type, value)
                found[key] = self._value(content, depth)
        return found

    def _value(self, data: memoryview, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise WireError(f"a struct has more than {MAX_VALUES} values")
        if depth >= MAX_DEPTH:
            raise WireError(f"a struct is nested deeper than {MAX_DEPTH} levels")
        found: Any = None
        for number, wire_type, value in fields(data):
            if number == _TEXT:
                found = _text(wire_type, value)
            elif number == _NUMBER:
                found = _double(wire_type, value)
            elif number == _BOOL and wire_type == VARINT:
                found = bool(value)
            elif number == _STRUCT:
                found = self.struct(_bytes(wire_type, value), depth + 1)
            elif number == _LIST:
                found = self._list(_bytes(wire_type, value), depth + 1)
            elif number == _NULL:
                found = None
        return found

    def _list(self, data: memoryview, depth: int) -> list[Any]:
        return [
            self._value(_bytes(wire_type, value), depth)
            for number, wire_type, value in fields(data)
            if number == 1
        ]


def _double(wire_type: int, value: Value) -> float:
    if wire_type != FIXED64 or not isinstance(value, memoryview):
        raise WireError("a number of a struct has no 8 bytes")
    number = float(struct.unpack("<d", value)[0])
    return number if math.isfinite(number) else 0.0


def _bytes(wire_type: int, value: Value) -> memoryview:
    if wire_type != BYTES or not isinstance(value, memoryview):
        raise WireError(f"a message has wire type {wire_type}")
    return value


def _text(wire_type: int, value: Value) -> str:
    try:
        return str(_bytes(wire_type, value), "utf-8")
    except UnicodeDecodeError as error:
        raise WireError(f"a text is not UTF-8: {error}") from error
