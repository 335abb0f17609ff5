"""What a write looks like in a form that is not the stored one, made once for all who watch in that form."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from headgate.apiserver.handlers.forms import Form
from headgate.apiserver.registry import Served
from headgate.apiserver.storage import Stored

MAX_ENCODINGS = 64
"""Encodings that are kept: watchers of one form read the same few events at about the same time."""
MAX_BYTES = 8 << 20
"""Of the encodings and of the objects that they are of. The newest one is kept, however large it is."""


class _Encoded(NamedTuple):
    of: bytes
    """The stored bytes: objects of one revision may differ by what a watcher is to see of them."""
    at_s: int
    """The second in which it was made: rows of Tables have ages."""
    text: bytes

    @property
    def size(self) -> int:
        return len(self.of) + len(self.text)


_Key = tuple[Served, Form, bool, int]


class Encodings:
    """Owner of the last encodings."""

    def __init__(self) -> None:
        self._kept: dict[_Key, _Encoded] = {}
        self._bytes = 0
        self._made = 0

    def get(
        self, served: Served, form: Form, stored: Stored, make: Callable[[], bytes], *, with_columns: bool
    ) -> bytes:
        """The encoding of an object, made if nobody has made it within this second."""
        key, now_s = (served, form, with_columns, stored.revision), int(time.monotonic())
        found = self._kept.get(key)
        if found is not None and found.of is stored.body and found.at_s == now_s:
            return found.text
        text = make()
        self._made += 1
        self._keep(key, _Encoded(stored.body, now_s, text))
        return text

    def _keep(self, key: _Key, encoded: _Encoded) -> None:
        if (old := self._kept.pop(key, None)) is not None:
            self._bytes -= old.size
        if len(self._kept) >= MAX_ENCODINGS or self._bytes + encoded.size > MAX_BYTES:
            self._kept.clear()
            self._bytes = 0
        self._kept[key] = encoded
        self._bytes += encoded.size

    def statistics(self) -> dict[str, int]:
        return {"kept": len(self._kept), "bytes": self._bytes, "made": self._made}
