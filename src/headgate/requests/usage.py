"""Reads the token counts that an engine reports at the end of its answer, without decoding the answer."""

from __future__ import annotations

import re
from typing import Final, Protocol

from headgate.requests.reported import Reported, Usage, read

MERGE_BELOW_BYTES: Final = 256
KEEP_BYTES: Final = 4096
"""Of a piece longer than this, only its end is kept: what is kept of a stream is bounded."""
MAX_LOOKED_AT: Final = 64
"""Members called `usage`, from the last one on, of which each may be null."""
LONGEST_PROMPT_TOKENS: Final = 1 << 20
"""Of prompts that are longer than their requests: those have images, or name what the engine keeps."""
LONGEST_ANSWER_TOKENS: Final = 1 << 17
"""Of answers of which not all is sent: reasoning may be left out."""
MAX_INNER: Final = 32
"""Objects within a `usage`: of more, an engine would make the gateway count braces for seconds."""


_KEY: Final = b'"usage":'
_FRAMING: Final = re.compile(rb"\r\n[0-9a-fA-F]{1,16}[ \t]*(?:;[^\r\n]*)?\r\n")
"""What stands between two chunks: proxies before engines end them anywhere, even amid a count."""
_DATA: Final = b"data:"
_START: Final = b"message_start"
_MESSAGES: Final = "/v1/messages"


def counts(reported: Reported) -> Usage:
    """The counts in one form for all APIs.

    The messages API reports separately the prompt tokens that its cache held and those that it stored. No
    more than the whole prompt counts as cached, or sums over requests would become negative.
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


def is_possible(usage: Usage, request_bytes: int, answer_bytes: int) -> bool:
    """Whether an engine can have counted this: a few send zeros, or numbers beyond any context window.
    Longer prompts and answers than those have at least a byte for each token."""
    prompt, completion = usage.prompt, usage.completion
    return (
        prompt + completion > 0
        and (prompt <= LONGEST_PROMPT_TOKENS or prompt <= request_bytes)
        and (completion <= LONGEST_ANSWER_TOKENS or completion <= answer_bytes)
    )


class AnswerTail(Protocol):
    """Keeps the end of an answer, for what is counted there."""

    @property
    def plain_bytes(self) -> int:
        """How long a compressed answer is, as far as it was inflated; 0 where that was not done."""
        ...

    def add(self, data: bytes) -> None:
        """The next bytes of the answer, as they came."""

    def text(self) -> bytes:
        """What is kept."""
        ...

    def event_bytes(self) -> float:
        """How long server-sent events are on average, framing included; 0 if there are none."""
        ...

    def usage(self) -> Usage | None:
        """The last `usage` object that is kept; None if there is none, or it is null or cut off."""
        ...


class Tail:
    """The end of an answer: its last four pieces, by reference, since a copy would cost more than forwarding.

    Small reads are put together, so that the pieces have at least 1 KB between them.
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
        at = text.rfind(_KEY)
        looked_at = 0
        while at >= 0 and looked_at < MAX_LOOKED_AT:
            value = _object(text, at + len(_KEY))
            if value:
                return read(value)
            at = text.rfind(_KEY, 0, at)
            looked_at += 1
        return None


class MessagesTail(Tail):
    """The same of an answer of the messages API, of which a stream says at its beginning how long its prompt
    is, and at its end perhaps only how long the answer is."""

    __slots__ = ("_head", "_is_beginning")

    def __init__(self) -> None:
        super().__init__()
        self._head = b""
        """What comes up to the end of `message_start`: pings and comments may precede it."""
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
        at = text.find(_KEY, text.find(_START)) if _START in text else -1
        return read(_object(text, at + len(_KEY))) if at >= 0 else None


def tail_of(path: str) -> Tail:
    """What keeps the end of an answer on this path."""
    return MessagesTail() if path == _MESSAGES else Tail()


CACHED_TOKENS: Final = b"cache"
"""What the names of a count of cached tokens have in common."""
_CACHED: Final = re.compile(rb'"(?:cached_tokens|cache_read_input_tokens)"[ \t]*:[ \t]*([0-9]{1,16})')


def with_cached(data: bytes, tokens: int) -> bytes:
    """The bytes with this count of cached tokens where they have a higher one, and as many bytes as before:
    neither a length nor a chunk around them changes. A count that is cut off at their end stays."""
    text = b"%d" % tokens

    def lower(found: re.Match[bytes]) -> bytes:
        told = found[1]
        if int(told) <= tokens or found.end() == len(data):
            return found[0]
        return found[0][: -len(told)] + text.ljust(len(told))

    return _CACHED.sub(lower, data)


def _object(text: bytes, start: int) -> bytes:
    """The JSON object that begins at `start`, after white space; empty if there is none or it is cut off.

    Braces are only counted: the strings of a `usage` have none.
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
