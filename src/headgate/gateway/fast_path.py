"""The short way of a streamed response: bytes go from the endpoint's connection straight to the client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headgate.requests.usage import AnswerTail

_NEWLINE: Final = 10
_USAGE: Final = b'"usage"'


class FastPath:
    """Passes body bytes on, without a look at the exchange that they belong to.

    Among hundreds of streams, each object that a chunk touches is a miss of the processor's cache.
    """

    __slots__ = ("_change", "_is_cut", "_tail", "_write", "passed_bytes")

    def __init__(
        self,
        write: Callable[[bytes], None],
        change: Callable[[bytes], bytes] | None,
        tail: AnswerTail,
        before: bytes,
    ) -> None:
        """`write` takes bytes to the client, `change` makes of the endpoint's bytes what the client gets, if
        anything is changed, and `before` is the data that preceded."""
        self._write = write
        self._change = change
        self._tail = tail
        self._is_cut = _ends_amid(before, False)
        """Whether the last bytes ended within a line or within token counts: what follows belongs to them."""
        self.passed_bytes = 0
        """Of the endpoint's, since they were counted last."""

    def pass_on(self, data: bytes) -> None:
        """Raises HttpParserError for framing that cannot be read."""
        passed = data if self._change is None else self._change(data)
        if passed:
            self._write(passed)
        self.passed_bytes += len(data)
        if data[-1] != _NEWLINE or self._is_cut or data.find(_USAGE) >= 0:
            self._is_cut = _ends_amid(data, self._is_cut)
            self._tail.add(data)


def _ends_amid(data: bytes, was_cut: bool) -> bool:
    """Whether the data ends within a line, or within the counts of a `usage`, which a proxy before the engine
    may have divided among chunks: then more braces are open behind it than closed. `was_cut` says the same of
    the data before."""
    if not data.endswith(b"\n"):
        return True
    at = data.rfind(_USAGE)
    if at < 0:
        return was_cut and data.find(b"}") < 0
    return data.count(b"}", at) <= data.count(b"{", at)
