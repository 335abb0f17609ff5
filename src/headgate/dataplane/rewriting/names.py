"""Restores the client's model name in a response, if the endpoint uses another name.

The name is in the member `model` of a JSON response and of each event of a stream. Anthropic's first event
has it inside `message`, and those of the responses API inside `response`. All other bytes stay.
"""

from __future__ import annotations

import re
from typing import Final

LONGEST_NAME_BYTES: Final = 1024
"""A longer string, including its quotes, is not a name and is not held."""

_MODEL: Final = b'"model"'
_INSIDE: Final = frozenset({b'"message"', b'"response"'})
_DELIMITERS: Final = re.compile(rb'["{}\[\],]')
_BRACKETS: Final = re.compile(rb'["{}\[\]]')
"""For levels where members do not matter: commas in a vector of numbers would be a thousand stops."""
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_REST_OF_STRING: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_EARLY: Final = re.compile(
    rb'\s*+\{(?:\s*+"[^"\\]*+"\s*+:\s*+(?:"[^"\\]*+"|[-+.\w]++)\s*+,)*?\s*+"model"\s*+:\s*+("[^"\\]*+")'
)
"""Plain members before the name, as engines begin. Finds what the full scan finds, in a fifth of the time."""
_QUOTE, _COMMA, _OPEN_OBJECT, _OPEN = b'"'[0], b","[0], b"{"[0], b"{["


class NameSplice:
    """Replaces the value of the first `model` in one JSON object that arrives in pieces.

    `name` is a JSON string, including its quotes. `nested` also searches the members `message` and
    `response`. The result does not depend on how the text is split. Takes time linear in the text, and holds
    at most `LONGEST_NAME_BYTES`. Text that is not a JSON object is returned unchanged.
    """

    __slots__ = (
        "_at_key",
        "_depth",
        "_held",
        "_in_string",
        "_inside",
        "_key",
        "_name",
        "_nested",
        "growth",
        "is_done",
        "place",
    )

    def __init__(self, name: bytes, *, nested: bool) -> None:
        self._name = name
        self._nested = nested
        self._depth = 0
        self._inside = False
        """Whether the object at depth 2 is searched."""
        self._at_key = False
        """Whether the next string is the key of a member."""
        self._key = b""
        self._held = b""
        self._in_string = False
        """Whether the text is within a string that is too long to hold."""
        self.is_done = not name
        """Whether all further text is returned unchanged."""
        self.place: tuple[int, int] | None = None
        """Position of the old value in the last piece."""
        self.growth = 0
        """Bytes added to the text."""

    def feed(self, data: bytes) -> bytes:
        """The bytes to forward now."""
        if self.is_done:
            return data
        text, self._held = self._held + data, b""
        at = 0
        if not self._depth:
            early = _EARLY.match(text)
            if early is not None and early.end() - early.start(1) <= LONGEST_NAME_BYTES:
                return self._replaced(text, *early.span(1))
        if self._in_string:
            rest = _REST_OF_STRING.match(text)
            if rest is None:
                return self._without_open_escape(text)
            self._in_string = False
            at = rest.end()
        while True:
            shallow = self._depth < 2 or (self._inside and self._depth == 2)
            found = (_DELIMITERS if shallow else _BRACKETS).search(text, at)
            if found is None:
                return text
            start, at = found.span()
            if text[start] != _QUOTE or not self._depth:
                if self._is_end(text[start]):
                    self.is_done = True
                    return text
                continue
            string = _STRING.match(text, start)
            if string is None:
                return self._hold(text, start)
            at = string.end()
            if shallow and self._is_name(string.group()):
                return self._replaced(text, start, at)

    def flush(self) -> bytes:
        """The rest at the end of the text."""
        held, self._held = self._held, b""
        return held

    def _is_name(self, string: bytes) -> bool:
        """Process a key or value of a searched object; return whether it is the name."""
        if self._at_key:
            self._at_key = False
            self._key = string
            return False
        return self._key == _MODEL and len(string) <= LONGEST_NAME_BYTES

    def _replaced(self, text: bytes, start: int, end: int) -> bytes:
        self.is_done = True
        self.place = (start, end)
        self.growth = len(self._name) - (end - start)
        return b"".join((text[:start], self._name, text[end:]))

    def _is_end(self, delimiter: int) -> bool:
        """Whether the object ends here, or the text is not an object."""
        if delimiter in _OPEN:
            is_object = delimiter == _OPEN_OBJECT
            if self._depth == 1:
                self._inside = is_object and self._nested and self._key in _INSIDE
            self._depth += 1
            self._at_key = is_object
            return self._depth == 1 and not is_object
        if not self._depth:
            return True
        if delimiter == _COMMA:
            self._at_key = True
            return False
        self._depth -= 1
        self._at_key = False
        return not self._depth

    def _hold(self, text: bytes, start: int) -> bytes:
        """Handle text that is cut within a string, which may be the name."""
        if len(text) - start < LONGEST_NAME_BYTES:
            self._held = text[start:]
            return text[:start]
        if self._at_key:
            self._at_key = False
            self._key = b""
        self._in_string = True
        return text[: start + 1] + self._without_open_escape(text[start + 1 :])

    def _without_open_escape(self, text: bytes) -> bytes:
        """Hold a final backslash, which belongs to the next byte."""
        if (len(text) - len(text.rstrip(b"\\"))) % 2 == 0:
            return text
        self._held = text[-1:]
        return text[:-1]
