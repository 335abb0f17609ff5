"""Takes a multipart form apart as its bytes come, in pieces of any size (RFC 7578, RFC 2046).

A form that two parsers could interpret differently is rejected, as the endpoint parses it again.
"""

from __future__ import annotations

import re
from typing import Final

MAX_PARTS: Final = 1000
MAX_PART_HEAD_BYTES: Final = 4 * 1024
MAX_PART_HEADERS: Final = 16
MAX_PARAMETERS: Final = 8
"""Of the content-disposition of a part."""
SEARCHED_BYTES: Final = 1 << 20
"""Searched for a boundary in one step, as a step blocks all other threads."""

_DISPOSITION: Final = re.compile(rb"content-disposition[ \t]*:", re.IGNORECASE)
_PARAMETER: Final = re.compile(rb';[ \t]*([^=;" \t]+)=(?:"((?:[^"\\]|\\.)*+)"|([^;" \t]*+))[ \t]*+')
_KIND: Final = re.compile(rb"[ \t]*form-data[ \t]*", re.IGNORECASE)
_RECODED: Final = re.compile(
    rb"content-transfer-encoding[ \t]*:(?![ \t]*(?:7bit|8bit|binary)[ \t]*$)"
    rb"|content-type[ \t]*:.*charset(?![ \t]*=[ \t]*\"?(?:utf-?8|us-ascii)\b)",
    re.IGNORECASE,
)
_CHARSET_PART: Final = b"_charset_"
"""Sets the encoding of all other parts, where it is honored (RFC 7578, 4.6)."""
_NONE: Final[frozenset[bytes]] = frozenset()
_HEAD_END: Final = b"\r\n\r\n"
_BEGINNING: Final = 0
"""Before the first boundary."""
_LINE: Final = 1
"""Behind a boundary, on its line."""
_HEAD: Final = 2
_CONTENT: Final = 3
_END: Final = 4
"""Behind the last boundary: nothing there is read."""


class UnclearError(ValueError):
    """The body is not a form, or is ambiguous."""


class Parts:
    """The parts of one form. Holds no content: at most the head of a part, or what may be a boundary.

    `feed` takes time linear in its data.
    """

    __slots__ = (
        "_at",
        "_cut",
        "_delimiter",
        "_files",
        "_name",
        "_parts",
        "_start",
        "_state",
        "_wanted",
        "found",
    )

    def __init__(self, boundary: bytes, wanted: frozenset[bytes], files: frozenset[bytes] = _NONE) -> None:
        """`wanted`: the names of the parts to find, of which `files` are uploads."""
        self._delimiter = b"\r\n--" + boundary
        self._wanted = wanted
        self._files = files
        self._state = _BEGINNING
        self._at = 0
        """Where the data begins that is fed next, and the cut data before it."""
        self._cut = b""
        """The end of what was fed, if more must be seen to read it."""
        self._parts = 0
        """The number of parts so far."""
        self._name = b""
        """The wanted part that is being read; empty for any other."""
        self._start = 0
        """Where the content of the present part begins."""
        self.found: dict[bytes, tuple[int, int]] = {}
        """Start and end of the contents of the wanted parts that are complete."""

    @property
    def is_complete(self) -> bool:
        """Whether the last boundary was read."""
        return self._state == _END

    def feed(self, data: bytes | bytearray) -> None:
        """Read the next bytes. Raises UnclearError, and then nothing more may be fed."""
        if self._cut:
            data = self._cut + data
        at = self._read(data)
        self._cut = bytes(data[at:])
        self._at += at

    def finish(self) -> None:
        """The form ends here. Raises UnclearError if it has no end."""
        if self._state == _BEGINNING:
            raise UnclearError("it does not begin with the boundary of content-type")
        if self._state != _END:
            raise UnclearError("it ends without its last boundary")

    def _read(self, data: bytes | bytearray) -> int:
        """Read as much as possible; returns the number of bytes that need not be seen again."""
        at = 0
        while True:
            before, state = at, self._state
            if state == _CONTENT:
                at = self._read_content(data, at)
            elif state == _HEAD:
                at = self._read_head(data, at)
            elif state == _LINE:
                at = self._read_line(data, at)
            elif state == _BEGINNING:
                at = self._read_first(data)
            else:
                return len(data)
            if self._state == state:
                return at
            assert at >= before

    def _read_first(self, data: bytes | bytearray) -> int:
        first = self._delimiter[2:]
        if not first.startswith(data[: len(first)]):
            raise UnclearError("it does not begin with the boundary of content-type")
        if len(data) < len(first):
            return 0
        self._state = _LINE
        return len(first)

    def _read_line(self, data: bytes | bytearray, at: int) -> int:
        after = data[at : at + 2]
        if len(after) < 2:
            return at
        if after == b"--":
            self._state = _END
        elif self._parts == MAX_PARTS:
            raise UnclearError(f"it has more than {MAX_PARTS} parts")
        elif after == b"\r\n":
            self._parts += 1
            self._state = _HEAD
        else:
            raise UnclearError("a boundary is followed by something else on its line")
        return at

    def _read_head(self, data: bytes | bytearray, at: int) -> int:
        end = data.find(_HEAD_END, at, at + MAX_PART_HEAD_BYTES)
        if end < 0:
            if len(data) - at >= MAX_PART_HEAD_BYTES:
                raise UnclearError(f"the head of a part does not end within {MAX_PART_HEAD_BYTES} bytes")
            return at
        lines = bytes(data[at + 2 : end]).split(b"\r\n")
        name, is_file = _name(lines)
        self._name = b""
        if name in self._wanted or name == _CHARSET_PART:
            if name == _CHARSET_PART or any(_RECODED.match(line) for line in lines):
                raise UnclearError(f"the part `{name.decode()}` sets an encoding: parts are read as UTF-8")
            if name in self.found or is_file != (name in self._files):
                told = "occurs twice" if name in self.found else "is a file" if is_file else "is not a file"
                raise UnclearError(f"the part `{name.decode()}` {told}")
            self._name = name
        at = end + len(_HEAD_END)
        self._start = self._at + at
        self._state = _CONTENT
        return at

    def _read_content(self, data: bytes | bytearray, at: int) -> int:
        delimiter = self._delimiter
        end = _find(data, delimiter, at)
        if end < 0:
            return max(at, len(data) - len(delimiter) + 1)
        if self._name:
            self.found[self._name] = (self._start, self._at + end)
        self._state = _LINE
        return end + len(delimiter)


def _find(body: bytes | bytearray, delimiter: bytes, start: int) -> int:
    for at in range(start, len(body), SEARCHED_BYTES):
        found = body.find(delimiter, at, at + SEARCHED_BYTES + len(delimiter) - 1)
        if found >= 0:
            return found
    return -1


def _name(lines: list[bytes]) -> tuple[bytes, bool]:
    """The name of a part by its headers, and whether it is a file."""
    if len(lines) > MAX_PART_HEADERS:
        raise UnclearError(f"a part has more than {MAX_PART_HEADERS} headers")
    if any(line[:1] in (b" ", b"\t") or b"\n" in line or b"\r" in line for line in lines):
        raise UnclearError("a header of a part continues on a second line")
    told = [line for line in lines if _DISPOSITION.match(line)]
    if len(told) != 1:
        raise UnclearError("a part must have one content-disposition")
    value = told[0].partition(b":")[2]
    kind = _KIND.match(value)
    at = kind.end() if kind is not None else -1
    names: list[bytes] = []
    is_file = False
    for _ in range(MAX_PARAMETERS):
        parameter = _PARAMETER.match(value, at) if at >= 0 else None
        if parameter is None:
            break
        key = parameter[1].lower()
        if key == b"name":
            names.append(parameter[2] if parameter[2] is not None else parameter[3])
        elif key.startswith(b"name*"):
            raise UnclearError("a part has `name*`, which some servers read and others do not: use `name`")
        is_file |= key.startswith(b"filename")
        at = parameter.end()
    if at != len(value) or len(names) != 1 or b"\\" in names[0]:
        raise UnclearError('the content-disposition of a part must be: form-data; name="..."')
    return names[0], is_file
