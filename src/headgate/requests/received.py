"""What has come of an answer, and what that tells of the tokens in it.

An engine that has lost its workers may begin each response well, since its API server is alive, and end it at
once: a response with status 200 that holds an error, or nothing, where an answer should be. It looks idle,
and would draw most of its pool's requests.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from headgate.requests.reported import Usage
from headgate.requests.usage import AnswerTail, is_possible, tail_of

HOLLOW: Final = "no_content"
"""What an endpoint has failed with that answered with nothing."""
BYTES_PER_TOKEN: Final = 4
"""Of an answer that came in no events and without counts: English text."""
_KEPT_BYTES: Final = 1024
"""Of a shorter response, all is known; of a longer one if it came in few pieces."""
_LONGEST_FRAME: Final = 16
"""Of what stands before the JSON of a response: the size of a chunk."""
_NO_CHUNK: Final = b"0\r\n\r\n"
_EVENT: Final = re.compile(rb"^data:[ ]?(?:(\[DONE\])|(?=(\{)))", re.MULTILINE)
_ERROR: Final = re.compile(
    rb'\{\s*+"(?:error"\s*+:\s*+[{"]|object"\s*+:\s*+"error"|type"\s*+:\s*+"(?:error|response\.failed)")'
)
_OF_CLIENT: Final = re.compile(rb'invalid_request|BadRequest|"code"\s*+:\s*+"?4\d\d')
"""What an error has that is the client's own, as a stream cannot say by its status any more."""
_CHAT: Final = "/v1/chat/completions"


class Received(Protocol):
    """Kept by the shell as an answer comes."""

    has_passed: bool
    """Whether the client has a part of the answer."""

    @property
    def size(self) -> int:
        """Bytes of the body that came from the endpoint; 0 is nothing."""
        ...

    @property
    def passed_bytes(self) -> int:
        """Of these, as the client has them."""
        ...

    def usage(self, request_bytes: int) -> Usage | None:
        """What the endpoint says that it counted, as far as that can be."""
        ...

    def tokens(self, expected: int, counted: Usage | None, *, is_stream: bool) -> int:
        """How many tokens came of an answer that broke off, or has no counts."""
        ...

    def is_hollow(self, path: str, counted: Usage | None, *, is_stream: bool) -> bool:
        """Whether a whole response of status 200 holds nothing. A client's mistake is none."""
        ...

    def forget(self, path: str) -> None:
        """The answer was taken back."""
        ...


class ReceivedBody:
    """Of an answer over HTTP."""

    __slots__ = ("has_passed", "is_encoded", "size", "tail", "taken_bytes")

    def __init__(self, path: str) -> None:
        self.tail: AnswerTail = tail_of(path)
        self.has_passed = False
        self.size = 0
        self.taken_bytes = 0
        """By how much the body became shorter on the way."""
        self.is_encoded = False
        """Whether its bytes are compressed, so that they tell neither events nor counts."""

    def forget(self, path: str) -> None:
        self.tail = tail_of(path)
        self.size = self.taken_bytes = 0
        self.is_encoded = False

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
        """Counts that there are may be those of its beginning.

        Engines send what they generate, a token in each event; of an answer in one piece, no more than was
        expected is believed. A compressed answer that could not be inflated counts for as many as expected,
        or for its bytes if these are fewer. Read from the end of the answer and its length: nothing is kept
        for it on its way.
        """
        size = self.tail.plain_bytes if self.is_encoded else self.size
        if not size:
            return min(self.passed_bytes, expected)
        event_bytes = self.tail.event_bytes() if is_stream else 0.0
        came = round(size / event_bytes) if event_bytes else min(size // BYTES_PER_TOKEN, expected)
        return came if counted is None else max(came, counted.completion)

    def is_hollow(self, path: str, counted: Usage | None, *, is_stream: bool) -> bool:
        """Judged as far as the answer was kept."""
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
