"""Text for lines of logs: what clients make up can neither end a line nor steer a terminal."""

from __future__ import annotations

import json
import re
from json.encoder import encode_basestring_ascii
from typing import Final

SHOWN_CHARACTERS: Final = 1024
"""Of a path, a model, or a message; what is longer is cut."""

_PLAIN: Final = re.compile(r"[!#-<>-\[\]-~]+")
"""What stands in the text form without quotes: printable, no space, quote, backslash or equals sign."""


def escaped(text: str) -> str:
    """Printable ASCII, as between the quotes of JSON."""
    return quoted(text)[1:-1]


def quoted(text: str) -> str:
    """The same in its quotes."""
    return encode_basestring_ascii(text[:SHOWN_CHARACTERS]).replace("\x7f", r"\u007f")


def word(text: str | None) -> str:
    """A value of the text form: as it is where that is one plain word, else in quotes; "-" for none."""
    if text is None:
        return "-"
    return text if len(text) <= SHOWN_CHARACTERS and _PLAIN.fullmatch(text) else quoted(text)


def cut(text: str | None) -> str | None:
    return None if text is None else text[:SHOWN_CHARACTERS]


def to_json(value: object) -> str:
    """Without spaces, and in printable ASCII."""
    return json.dumps(value, separators=(",", ":")).replace("\x7f", r"\u007f")
