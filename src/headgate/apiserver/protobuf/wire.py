"""The wire format: fields one after the other, each a number, a wire type and a value."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

_FIXED_BYTES = {FIXED64: 8, FIXED32: 4}
_MAX_VARINT_BYTES = 10

Value = int | memoryview


class WireError(ValueError):
    """The bytes are no protobuf message."""


def fields(data: memoryview) -> Iterator[tuple[int, int, Value]]:
    """Number, wire type and value of each field: an unsigned integer, or the bytes of it."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        if number == 0:
            raise WireError("field number 0 does not exist")
        if wire_type == VARINT:
            value, position = _varint(data, position)
            yield number, wire_type, value
            continue
        if wire_type == BYTES:
            length, position = _varint(data, position)
        elif wire_type in _FIXED_BYTES:
            length = _FIXED_BYTES[wire_type]
        else:
            raise WireError(f"field {number} has wire type {wire_type}, which is not in use")
        if length > end - position:
            raise WireError(f"field {number} ends {length - (end - position)} bytes after its message")
        yield number, wire_type, data[position : position + length]
        position += length


def signed(value: int) -> int:
    """An int32 or int64 from its varint: both are written as 64 bits in two's complement."""
    return int(struct.unpack("<q", struct.pack("<Q", value))[0])


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for index in range(_MAX_VARINT_BYTES):
        if position + index >= len(data):
            raise WireError("the message ends within a number")
        byte = data[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value >> 64:
                raise WireError("a number has more than 64 bits")
            return value, position + index + 1
    raise WireError(f"a number is longer than {_MAX_VARINT_BYTES} bytes")
