"""Recognizes request heads that repeat the last one, except for the length of the body.

A client that keeps its connection open mostly sends the same bytes before each body. llhttp and all checks
would give the same result for the same bytes, so they are compared instead of parsed, which saves about a
fifth of the cost of a request.
"""

from __future__ import annotations

import re
from typing import Final

from headgate.gateway.request import ParsedHead, Request

MAX_HEAD_BYTES: Final = 4096
"""Longer heads are not kept: every connection keeps one."""

MAX_MISSES: Final = 8
"""After this many different heads in a row, a connection is assumed to carry requests of many clients."""

_MAX_DIGITS: Final = 9
_LENGTH: Final = re.compile(rb"\r\ncontent-length: ([1-9][0-9]{0,8})\r\n", re.IGNORECASE)
_END: Final = b"\r\n\r\n"


class RequestHeadCache:
    """The last head of a connection, as bytes and parsed, and its host."""

    __slots__ = ("_after", "_before", "_misses", "_parsed", "allowed_host", "data")

    def __init__(self) -> None:
        self.data = b""
        """The data being parsed, if a request starts at its first byte."""
        self.allowed_host: bytes | None = None
        """The last host that was allowed. Usually, all requests of a connection have the same."""
        self._before = self._after = b""
        """The head up to the length of the body, and the rest after it."""
        self._parsed: ParsedHead | None = None
        self._misses = 0

    def recall(self, data: bytes, max_body_bytes: int) -> Request | None:
        """The request in `data`, if it is whole, alone and has the known head. The caller sets its arrival
        time and whether its connection is kept alive."""
        known, before, after = self._parsed, self._before, self._after
        if known is None or not data.startswith(before):
            return None
        start = len(before)
        end = data.find(b"\r", start, start + _MAX_DIGITS + 1)
        if end < 0 or not data.startswith(after, end):
            return None
        body_at = end + len(after)
        length, size = data[start:end], len(data) - body_at
        if length != b"%d" % size or size > max_body_bytes:
            return None
        self._misses = 0
        return Request(known, data[body_at:], True, 0.0, length)

    def learn(self, request: Request) -> None:
        """Keep the head of a request that passed all checks, if it may repeat and `data` is exactly this
        request."""
        data = self.data
        if not data or self._misses >= MAX_MISSES:
            return
        self._misses += 1
        size = len(data) - len(request.body)
        if size > MAX_HEAD_BYTES or data.find(_END) != size - len(_END):
            return
        found = _LENGTH.search(data, 0, size)
        if found is not None and int(found[1]) == len(request.body) and not request.header(b"expect"):
            self._before, self._after = data[: found.start(1)], data[found.end(1) : size]
            self._parsed = request.parsed

    def forget(self) -> None:
        """Forget the head and its host: checks that they passed may fail now."""
        self._parsed = self.allowed_host = None
        self._misses = 0
