"""Text for log lines: values from clients can neither end a line nor control a terminal."""

from __future__ import annotations

import json
import re
from json.encoder import encode_basestring_ascii
from typing import Final

SHOWN_CHARACTERS: Final = 1024
"""Of a path, a model, or a message; longer ones are cut."""

_PLAIN: Final = re.compile(r"[!#-<>-\[\]-~]+")
"""Text without quotes in the text format: printable, no space, quote, backslash or equals sign."""


def escaped(text: str) -> str:
    """Printable ASCII, as between the quotes of JSON."""
    return quoted(text)[1:-1]


def quoted(text: str) -> str:
    """Like `escaped`, in quotes."""
    return encode_basestring_ascii(text[:SHOWN_CHARACTERS]).replace("\x7f", r"\u007f")


def word(text: str | None) -> str:
    """A value of the text format: unquoted if it is one plain word, else in quotes; "-" for None."""
    if text is None:
        return "-"
    return text if len(text) <= SHOWN_CHARACTERS and _PLAIN.fullmatch(text) else quoted(text)


def cut(text: str | None) -> str | None:
    return None if text is None else text[:SHOWN_CHARACTERS]


def to_json(value: object) -> str:
    """Without spaces, and in printable ASCII."""
    return json.dumps(value, separators=(",", ":")).replace("\x7f", r"\u007f")
