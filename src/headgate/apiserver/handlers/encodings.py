"""What a write looks like in a form that is not the stored one, made once for all who watch in that form."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from headgate.apiserver.handlers.forms import Form
from headgate.apiserver.registry import Served
from headgate.apiserver.storage import Stored

MOST = 64
"""Encodings that are kept: watchers of one form read the same few events at about the same time."""
LARGEST_BYTES = 16 * 1024
"""Longer ones are made anew for each watcher, so that what is kept stays below a megabyte."""


class _Encoded(NamedTuple):
    of: bytes
    """The stored bytes: objects of one revision may differ by what a watcher is to see of them."""
    at_s: int
    """The second in which it was made: rows of Tables have ages."""
    text: bytes


class Encodings:
    """Owner of the last encodings."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Served, Form, int], _Encoded] = {}
        self._made = 0

    def get(self, served: Served, form: Form, stored: Stored, make: Callable[[], bytes]) -> bytes:
        """The encoding of an object, made if nobody has made it within this second."""
        key, now_s = (served, form, stored.revision), int(time.monotonic())
        found = self._kept.get(key)
        if found is not None and found.of is stored.body and found.at_s == now_s:
            return found.text
        text = make()
        self._made += 1
        if len(text) <= LARGEST_BYTES:
            if len(self._kept) >= MOST:
                self._kept.clear()
            self._kept[key] = _Encoded(stored.body, now_s, text)
        return text

    def statistics(self) -> dict[str, int]:
        return {"kept": len(self._kept), "made": self._made}
