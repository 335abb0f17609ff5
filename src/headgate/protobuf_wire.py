"""Protobuf's wire format: a sequence of fields, each with a number, a wire type and a value."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

_FIXED_BYTES: Final = {FIXED64: 8, FIXED32: 4}
_MAX_VARINT_BYTES: Final = 10

Value = int | memoryview


class WireError(ValueError):
    """The bytes are not a protobuf message."""


def fields(data: memoryview) -> Iterator[tuple[int, int, Value]]:
    """Number, wire type and value of each field: an unsigned integer, or its bytes."""
    position, end = 0, len(data)
    while position < end:
        tag, position = varint_at(data, position)
        number, wire_type = tag >> 3, tag & 7
        if number == 0:
            raise WireError("field number 0 does not exist")
        if wire_type == VARINT:
            value, position = varint_at(data, position)
            yield number, wire_type, value
            continue
        if wire_type == BYTES:
            length, position = varint_at(data, position)
        elif wire_type in _FIXED_BYTES:
            length = _FIXED_BYTES[wire_type]
        else:
            raise WireError(f"field {number} has wire type {wire_type}, which is not in use")
        if length > end - position:
            raise WireError(f"field {number} ends {length - (end - position)} bytes after its message")
        yield number, wire_type, data[position : position + length]
        position += length


def signed(value: int) -> int:
    """An int32 or int64 from its varint: both are encoded as 64 bits in two's complement."""
    return int(struct.unpack("<q", struct.pack("<Q", value))[0])


def varint_at(data: memoryview | bytes, position: int) -> tuple[int, int]:
    """The number at this position, and the position after it."""
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


def varint(value: int) -> bytes:
    """The encoding of a number that is not negative."""
    if value < 0x80:
        return _SHORT[value]
    if value < 0x4000:  # most lengths
        return _CONTINUED[value & 0x7F] + _SHORT[value >> 7]
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def delimited(number: int, content: bytes) -> bytes:
    """A field whose value has a length: bytes, text, or a message."""
    return b"".join((varint(number << 3 | BYTES), varint(len(content)), content))


def number_field(number: int, value: int) -> bytes:
    """A field with a number, an enum or a boolean."""
    return varint(number << 3 | VARINT) + varint(value)


_SHORT: Final = tuple(bytes((value,)) for value in range(0x80))
_CONTINUED: Final = tuple(bytes((value | 0x80,)) for value in range(0x80))
"""The first of several bytes."""
