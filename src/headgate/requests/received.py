"""The received part of a response, and what it says about the tokens in it.

An engine that has lost its workers may begin each response well, since its API server is alive, and end it at
once: status 200 with an error, or with nothing. It looks idle, and would attract most of its pool's requests.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from headgate.requests.reported import Usage
from headgate.requests.usage import ResponseTail, is_possible, tail_of

HOLLOW: Final = "no_content"
"""The failure of an endpoint that sent a response without content."""
BYTES_PER_TOKEN: Final = 4
"""For a response without events and counts: English text."""
_KEPT_BYTES: Final = 1024
"""A response up to this size is kept as a whole; a longer one only if it came in few pieces."""
_LONGEST_FRAME: Final = 16
"""The longest text before the JSON of a response: a chunk size."""
_NO_CHUNK: Final = b"0\r\n\r\n"
_EVENT: Final = re.compile(rb"^data:[ ]?(?:(\[DONE\])|(?=(\{)))", re.MULTILINE)
_ERROR: Final = re.compile(
    rb'\{\s*+"(?:error"\s*+:\s*+[{"]|object"\s*+:\s*+"error"|type"\s*+:\s*+"(?:error|response\.failed)")'
)
_OF_CLIENT: Final = re.compile(rb'invalid_request|BadRequest|"code"\s*+:\s*+"?4\d\d')
"""Marks an error that is the client's fault, as a stream can no longer say so by its status."""
_CHAT: Final = "/v1/chat/completions"


class Received(Protocol):
    """Maintained by the shell as a response arrives."""

    has_passed: bool
    """Whether any part of the response was sent to the client."""

    @property
    def is_one_response(self) -> bool:
        """Whether its counts and times are those of one response, from which something can be learned."""
        ...

    @property
    def size(self) -> int:
        """Bytes of the body received from the endpoint; 0 means none."""
        ...

    @property
    def passed_bytes(self) -> int:
        """Their number as sent to the client."""
        ...

    def usage(self, request_bytes: int) -> Usage | None:
        """The counts reported by the endpoint, if they are plausible."""
        ...

    def tokens(self, expected: int, counted: Usage | None, *, is_stream: bool) -> int:
        """The number of tokens received of a response that broke off, or has no counts."""
        ...

    def is_hollow(self, path: str, counted: Usage | None, *, is_stream: bool) -> bool:
        """Whether a complete response of status 200 has no content. An error that is the client's fault
        counts as content."""
        ...

    def forget(self, path: str) -> None:
        """The response was withdrawn."""
        ...


class ReceivedBody:
    """A response over HTTP."""

    __slots__ = ("has_passed", "is_encoded", "size", "tail", "taken_bytes")

    def __init__(self, path: str) -> None:
        self.tail: ResponseTail = tail_of(path)
        self.has_passed = False
        self.size = 0
        self.taken_bytes = 0
        """Bytes removed from the body by the gateway."""
        self.is_encoded = False
        """Whether the body is compressed, so that its bytes show neither events nor counts."""

    def add(self, data: bytes) -> None:
        """The next bytes of the response."""
        self.tail.add(data)
        self.size += len(data)

    def forget(self, path: str) -> None:
        self.tail = tail_of(path)
        self.size = self.taken_bytes = 0
        self.is_encoded = False

    @property
    def is_one_response(self) -> bool:
        return True

    @property
    def passed_bytes(self) -> int:
        return self.size - self.taken_bytes

    def usage(self, request_bytes: int) -> Usage | None:
        if not self.size:
            return None
        usage = self.tail.usage()
        if usage is None:
            return None
        return usage if is_possible(usage, request_bytes, self.tail.plain_bytes or self.size) else None

    def tokens(self, expected: int, counted: Usage | None, *, is_stream: bool) -> int:
        """Counts, if there are any, may be those from the beginning of the response.

        Engines send tokens as they generate them, one per event. A response in one piece counts for no more
        than expected. A compressed response that could not be inflated counts for the expected tokens, or its
        bytes if these are fewer. Computed from the end and the length of the response, so forwarding it costs
        nothing more.
        """
        size = self.tail.plain_bytes if self.is_encoded else self.size
        if not size:
            return min(self.passed_bytes, expected)
        event_bytes = self.tail.event_bytes() if is_stream else 0.0
        came = round(size / event_bytes) if event_bytes else min(size // BYTES_PER_TOKEN, expected)
        return came if counted is None else max(came, counted.completion)

    def is_hollow(self, path: str, counted: Usage | None, *, is_stream: bool) -> bool:
        """Decides by the part of the response that was kept."""
        if counted is not None:
            return not counted.completion and path == _CHAT
        size, text = self.size, self.tail.text()
        if self.is_encoded or (size > _KEPT_BYTES and size != len(text)):
            return not size
        first = _EVENT.search(text) if is_stream else None
        if first is not None and first[1]:
            return True
        at = first.start(2) if first is not None else text.find(b"{")
        if first is None and not 0 <= at <= _LONGEST_FRAME:
            return text in (b"", _NO_CHUNK)
        return _ERROR.match(text, at) is not None and _OF_CLIENT.search(text, at) is None


class OpaqueBody(ReceivedBody):
    """A response to a request that names no model: nothing is known about its content."""

    def usage(self, request_bytes: int) -> Usage | None:
        return None

    def is_hollow(self, path: str, counted: Usage | None, *, is_stream: bool) -> bool:
        return False
