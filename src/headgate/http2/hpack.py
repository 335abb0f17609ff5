"""Header compression (RFC 7541): decodes the peer's headers; own headers are encoded without a table.

A proxy sends the same headers with each stream, so a block is decoded once for as long as the peer's table
stays the same. Own headers are constants, mostly: literals without indexing need no state, and so no work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from hpack.exceptions import HPACKError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from headgate.http2 import errors

Header = tuple[bytes, bytes]
Headers = tuple[Header, ...]

MAX_TABLE_BYTES: Final = 4096
"""The peer's table, which no setting of this side makes larger (RFC 9113, 6.5.2)."""
ENTRY_BYTES: Final = 32
"""Counted for each header in addition to name and value."""
MAX_KNOWN: Final = 32
MAX_KNOWN_BYTES: Final = 1024
"""Blocks that are remembered: their number, and the length of each."""
_MAX_INTEGER: Final = 1 << 28
_STATIC: Final[Headers] = HeaderTable.STATIC_TABLE
_STATIC_COUNT: Final = len(_STATIC)
_INDEX: Final = {name: place for place, (name, _) in reversed([*enumerate(_STATIC, 1)])}
_PAIR_INDEX: Final = {pair: place for place, pair in reversed([*enumerate(_STATIC, 1)])}


class HeaderDecoder:
    """The decoder of one connection. Any error ends the connection, as the table is lost."""

    __slots__ = ("_known", "_max_list_bytes", "_max_table_bytes", "_table", "_table_bytes")

    def __init__(self, max_list_bytes: int) -> None:
        self._max_list_bytes = max_list_bytes
        self._table: deque[Header] = deque()
        """The newest entry first."""
        self._table_bytes = 0
        self._max_table_bytes = MAX_TABLE_BYTES
        self._known: dict[bytes, Headers] = {}
        """Blocks that leave the table as it is, decoded with the table as it is."""

    def decode(self, block: bytes) -> Headers:
        """The headers of a whole block: the same object as before where possible. Raises Http2Error."""
        known = self._known.get(block)
        if known is not None:
            return known
        try:
            headers, changes_table = self._decode(block)
        except (IndexError, HPACKError) as error:
            raise errors.Http2Error(
                errors.COMPRESSION_ERROR, f"a header block cannot be decoded: {error}"
            ) from None
        if changes_table or len(self._known) >= MAX_KNOWN:
            self._known.clear()
        if not changes_table and len(block) <= MAX_KNOWN_BYTES:
            self._known[block] = headers
        return headers

    def _decode(self, block: bytes) -> tuple[Headers, bool]:
        at, end = 0, len(block)
        left = self._max_list_bytes
        headers: list[Header] = []
        changes_table = False
        while at < end:
            first = block[at]
            if first & 0x80:
                index, at = _integer(block, at, 0x7F)
                header = self._entry(index)
            elif first & 0xE0 == 0x20:
                size, at = _integer(block, at, 0x1F)
                self._resize(size, is_first=not headers)
                changes_table = True
                continue
            else:
                is_kept = first & 0x40 != 0
                index, at = _integer(block, at, 0x3F if is_kept else 0x0F)
                if index:
                    name = self._entry(index)[0]
                else:
                    name, at = _string(block, at)
                value, at = _string(block, at)
                header = (name, value)
                if is_kept:
                    self._add(header)
                    changes_table = True
            left -= len(header[0]) + len(header[1]) + ENTRY_BYTES
            if left < 0:
                raise errors.Http2Error(
                    errors.ENHANCE_YOUR_CALM, f"the headers of a stream exceed {self._max_list_bytes} bytes"
                )
            headers.append(header)
        return tuple(headers), changes_table

    def _entry(self, index: int) -> Header:
        if 0 < index <= _STATIC_COUNT:
            return _STATIC[index - 1]
        if index == 0:
            raise IndexError("index 0")
        return self._table[index - _STATIC_COUNT - 1]

    def _add(self, header: Header) -> None:
        size = len(header[0]) + len(header[1]) + ENTRY_BYTES
        self._evict(self._max_table_bytes - size)
        if size <= self._max_table_bytes:
            self._table.appendleft(header)
            self._table_bytes += size

    def _resize(self, size: int, *, is_first: bool) -> None:
        if not is_first or size > MAX_TABLE_BYTES:
            raise errors.Http2Error(
                errors.COMPRESSION_ERROR, f"a table of {size} bytes, or a change of it behind a header"
            )
        self._max_table_bytes = size
        self._evict(size)

    def _evict(self, most: int) -> None:
        while self._table and self._table_bytes > most:
            name, value = self._table.pop()
            self._table_bytes -= len(name) + len(value) + ENTRY_BYTES


def _integer(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """A number (RFC 7541, 5.1), and where it ends."""
    value = block[at] & mask
    at += 1
    if value < mask:
        return value, at
    shift = 0
    while True:
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        if not byte & 0x80:
            break
        shift += 7
        if shift > 28:
            raise IndexError("a number of more than 5 bytes")
    if value > _MAX_INTEGER:
        raise IndexError("a number that is too large")
    return value, at


def _string(block: bytes, at: int) -> tuple[bytes, int]:
    """A string (RFC 7541, 5.2), and where it ends."""
    is_huffman = block[at] & 0x80
    size, at = _integer(block, at, 0x7F)
    end = at + size
    if end > len(block):
        raise IndexError("a string that is longer than the block")
    data = block[at:end]
    return (decode_huffman(data) if is_huffman else data), end


def encode(headers: Iterable[Header]) -> bytes:
    """A block that leaves the peer's table as it is."""
    made = bytearray()
    for header in headers:
        name, value = header
        if (place := _PAIR_INDEX.get(header)) is not None:
            made += _number(place, 0x7F, 0x80)
            continue
        if (place := _INDEX.get(name)) is not None:
            made += _number(place, 0x0F, 0)
        else:
            made += b"\0" + _number(len(name), 0x7F, 0) + name
        made += _number(len(value), 0x7F, 0) + value
    return bytes(made)


def _number(value: int, mask: int, bits: int) -> bytes:
    if value < mask:
        return bytes((bits | value,))
    made = bytearray((bits | mask,))
    value -= mask
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)
