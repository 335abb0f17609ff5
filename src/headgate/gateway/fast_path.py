"""The fast path of a streamed response: from the upstream connection straight to the client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headgate.requests.usage import ResponseTail

_NEWLINE: Final = 10
_USAGE: Final = b'"usage"'


class FastPath:
    """Forwards body bytes without using their exchange.

    With hundreds of streams, each object that a chunk touches is a cache miss of the processor.
    """

    __slots__ = ("_change", "_is_cut", "_tail", "_write", "passed_bytes")

    def __init__(
        self,
        write: Callable[[bytes], None],
        change: Callable[[bytes], bytes] | None,
        tail: ResponseTail,
        before: bytes,
    ) -> None:
        """`write` sends bytes to the client. `change`, if any, converts the endpoint's bytes for the client.
        `before` is the preceding data."""
        self._write = write
        self._change = change
        self._tail = tail
        self._is_cut = _ends_amid(before, False)
        """Whether the last data ended within a line or within token counts, which then continue."""
        self.passed_bytes = 0
        """The endpoint's bytes since they were last counted."""

    def pass_on(self, data: bytes) -> None:
        """Forward bytes. Raises HttpParserError for invalid framing."""
        passed = data if self._change is None else self._change(data)
        if passed:
            self._write(passed)
        self.passed_bytes += len(data)
        if data[-1] != _NEWLINE or self._is_cut or data.find(_USAGE) >= 0:
            self._is_cut = _ends_amid(data, self._is_cut)
            self._tail.add(data)


def _ends_amid(data: bytes, was_cut: bool) -> bool:
    """Whether the data ends within a line, or within the token counts of a `usage`, which a proxy before the
    engine may have split between chunks: then more braces are open after it than closed. `was_cut` is the
    result for the preceding data."""
    if not data.endswith(b"\n"):
        return True
    at = data.rfind(_USAGE)
    if at < 0:
        return was_cut and data.find(b"}") < 0
    return data.count(b"}", at) <= data.count(b"{", at)
