"""Reads the token counts that an engine reports at the end of its response, without decoding the response."""

from __future__ import annotations

import re
from typing import Final, Protocol

from headgate.requests.reported import Reported, Usage, read

MERGE_BELOW_BYTES: Final = 256
KEEP_BYTES: Final = 4096
"""Only the end of a longer piece is kept, to bound the memory per stream."""
MAX_LOOKED_AT: Final = 64
"""Members named `usage`, from the last one on, any of which may be null."""
LONGEST_PROMPT_TOKENS: Final = 1 << 20
"""Applies to prompts longer than their requests: those with images, or that refer to content stored by the
engine."""
LONGEST_RESPONSE_TOKENS: Final = 1 << 17
"""Applies to responses that are not sent in full: reasoning may be omitted."""
MAX_INNER: Final = 32
"""Objects within a `usage`: with more, an engine could make the gateway count braces for seconds."""


USAGE_KEY: Final = b'"usage":'
_FRAMING: Final = re.compile(rb"\r\n[0-9a-fA-F]{1,16}[ \t]*(?:;[^\r\n]*)?\r\n")
"""Framing between two chunks: proxies in front of engines end chunks anywhere, even within a count."""
_DATA: Final = b"data:"
_START: Final = b"message_start"
_MESSAGES: Final = "/v1/messages"
_RESPONSES: Final = "/v1/responses"
_NULL: Final = b"null"
_LONGEST_GAP: Final = 16
"""White space before a value, and what tells its kind."""


def counts(reported: Reported) -> Usage:
    """The counts in one form for all APIs.

    The messages API reports prompt tokens read from the cache and written to it separately. Cached tokens are
    capped at the prompt, or sums over requests would become negative.
    """
    cached = reported.cached
    prompt = reported.prompt_tokens or (
        reported.input_tokens
        + (reported.cache_read_input_tokens or 0)
        + (reported.cache_creation_input_tokens or 0)
    )
    if cached is not None and cached > prompt:
        cached = prompt
    return Usage(prompt, reported.completion_tokens or reported.output_tokens, cached)


def is_possible(usage: Usage, request_bytes: int, response_bytes: int) -> bool:
    """Whether an engine can have counted this: a few send zeros, or numbers beyond any context window. Above
    the limits, prompts and responses have at least one byte per token."""
    prompt, completion = usage.prompt, usage.completion
    return (
        prompt + completion > 0
        and (prompt <= LONGEST_PROMPT_TOKENS or prompt <= request_bytes)
        and (completion <= LONGEST_RESPONSE_TOKENS or completion <= response_bytes)
    )


class ResponseTail(Protocol):
    """Keeps the end of a response, where counts are reported."""

    @property
    def plain_bytes(self) -> int:
        """The inflated size of a compressed response, as far as it was inflated; 0 if it was not."""
        ...

    def add(self, data: bytes) -> None:
        """Add the next bytes of the response, as they arrived."""

    def text(self) -> bytes:
        """The part that is kept."""
        ...

    def event_bytes(self) -> float:
        """Average size of server-sent events, including framing; 0 if there are none."""
        ...

    def usage(self) -> Usage | None:
        """The last `usage` object that is kept; None if there is none, or it is null or truncated."""
        ...


class Tail:
    """The end of a response: its last four pieces, by reference, since a copy would cost more than
    forwarding.

    Small reads are merged, so that the pieces have at least 1 KB in total.
    """

    __slots__ = ("_first", "_fourth", "_second", "_third")

    @property
    def plain_bytes(self) -> int:
        return 0

    def __init__(self) -> None:
        self._first = self._second = self._third = self._fourth = b""

    def add(self, data: bytes) -> None:
        fourth = self._fourth
        if len(fourth) < MERGE_BELOW_BYTES and len(data) < KEEP_BYTES:
            self._fourth = fourth + data if fourth else data
            return
        self._first = self._second
        self._second = self._third
        self._third = fourth
        self._fourth = data if len(data) <= KEEP_BYTES else data[-KEEP_BYTES:]

    def text(self) -> bytes:
        if not self._third:
            return self._fourth
        return b"".join((self._first, self._second, self._third, self._fourth))

    def event_bytes(self) -> float:
        text = self.text()
        events = text.count(_DATA)
        return len(text) / events if events else 0.0

    def usage(self) -> Usage | None:
        reported = self._reported()
        return None if reported is None else counts(reported)

    def _reported(self) -> Reported | None:
        text = self.text()
        if text.find(b"\r\n") >= 0:
            text = _FRAMING.sub(b"", text)
        at = text.rfind(USAGE_KEY)
        looked_at = 0
        while at >= 0 and looked_at < MAX_LOOKED_AT:
            value = object_at(text, at + len(USAGE_KEY))
            if value:
                return read(value)
            at = text.rfind(USAGE_KEY, 0, at)
            looked_at += 1
        return None


class MessagesTail(Tail):
    """The end of a response of the messages API. Its stream reports the prompt's tokens at the beginning, and
    at the end perhaps only those of the response."""

    __slots__ = ("_head", "_is_beginning")

    def __init__(self) -> None:
        super().__init__()
        self._head = b""
        """The beginning, up to the end of `message_start`, which pings and comments may precede."""
        self._is_beginning = True

    def add(self, data: bytes) -> None:
        if self._is_beginning:
            self._head += data[:KEEP_BYTES]
            start = self._head.find(_START)
            has_all = start >= 0 and self._head.find(b"\n\n", start) >= 0
            self._is_beginning = len(self._head) < KEEP_BYTES and not has_all
        super().add(data)

    def _reported(self) -> Reported | None:
        """The last `usage`, completed by that of `message_start`."""
        last, first = super()._reported(), self._reported_at_start()
        if last is None or first is None:
            return last or first
        said = {name: getattr(last, name) or getattr(first, name) for name in Reported.__struct_fields__}
        return Reported(**said)

    def _reported_at_start(self) -> Reported | None:
        text = _FRAMING.sub(b"", self._head)
        at = text.find(USAGE_KEY, text.find(_START)) if _START in text else -1
        return read(object_at(text, at + len(USAGE_KEY))) if at >= 0 else None


class ResponsesTail(Tail):
    """The end of a response of the responses API, and the counts before it.

    What clients choose, such as their `metadata`, is repeated after the counts, and may be longer than the
    end that is kept. The events at the beginning of a stream repeat their `tools`, and have no counts.
    """

    __slots__ = ("_counts", "_open")

    def __init__(self) -> None:
        super().__init__()
        self._counts = b""
        """The last object named `usage`; empty if the last such member was null."""
        self._open = b""
        """What has arrived of the next one, or of its name."""

    def add(self, data: bytes) -> None:
        super().add(data)
        text = self._open + data
        if text.find(b"\r\n") >= 0:
            text = _FRAMING.sub(b"", text)
        self._open = text[1 - len(USAGE_KEY) :]
        at = text.rfind(USAGE_KEY)
        looked_at = 0
        while at >= 0 and looked_at < MAX_LOOKED_AT:
            start = at + len(USAGE_KEY)
            value = text[start : start + _LONGEST_GAP].lstrip()
            if value.startswith(_NULL):
                self._counts = b""
                break
            if value.startswith(b"{") and (counts := object_at(text, start)):
                self._counts = counts
                break
            if value.startswith(b"{") or _NULL.startswith(value):  # it goes on in the next piece
                self._open = text[at:] if len(text) - at <= KEEP_BYTES else b""
            at = text.rfind(USAGE_KEY, 0, at)
            looked_at += 1

    def _reported(self) -> Reported | None:
        return read(self._counts) if self._counts else None


def tail_of(path: str) -> Tail:
    """A new tail for responses on this path."""
    if path == _MESSAGES:
        return MessagesTail()
    return ResponsesTail() if path == _RESPONSES else Tail()


CACHED_TOKENS: Final = b"cache"
"""A common part of the names for counts of cached tokens."""
_CACHED: Final = re.compile(rb'"(?:cached_tokens|cache_read_input_tokens)"[ \t]*:[ \t]*([0-9]{1,16})')


def with_cached(data: bytes, tokens: int) -> bytes:
    """Lower higher counts of cached tokens to `tokens`. Keeps the length of the data, so that content length
    and chunk sizes stay valid. A count that is cut off at the end is not changed."""
    text = b"%d" % tokens

    def lower(found: re.Match[bytes]) -> bytes:
        told = found[1]
        if int(told) <= tokens or found.end() == len(data):
            return found[0]
        return found[0][: -len(told)] + text.ljust(len(told))

    return _CACHED.sub(lower, data)


def object_at(text: bytes, start: int) -> bytes:
    """The JSON object that begins at `start`, after white space; empty if there is none or it is truncated.

    Only counts braces: the strings of a `usage` have none.
    """
    end = text.find(b"}", start)
    if end < 0:
        return b""
    if text.startswith(b"{", start) and text.count(b"{", start, end) == 1:
        return text[start : end + 1]
    if text[start : start + 1] != b"{" and not text[start:end].lstrip().startswith(b"{"):
        return b""
    for _ in range(MAX_INNER):
        if text.count(b"{", start, end) <= text.count(b"}", start, end) + 1:
            return text[start : end + 1]
        end = text.find(b"}", end + 1)
        if end < 0:
            break
    return b""
