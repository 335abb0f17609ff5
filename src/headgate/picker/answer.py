"""The response to one request on its way through the picker, as messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headgate import extproc
from headgate.picker import replies
from headgate.picker.response_body import ResponseBody

if TYPE_CHECKING:
    from headgate.requests.client import Header
    from headgate.requests.decision import Decision

_OF_GRPC: Final = {
    b"3": 400,
    b"4": 504,
    b"5": 404,
    b"7": 403,
    b"8": 429,
    b"13": 500,
    b"14": 503,
    b"16": 401,
}
MARK: Final = extproc.SetHeader(b"x-went-into-resp-headers", b"true")
"""On every response, as the reference implementation has it."""


_USUAL_HEAD: Final = replies.headers(extproc.Mutation([MARK]), is_response=True)


class Answer:
    """`mode`: how the proxy sends bodies of responses, such as extproc.BUFFERED."""

    __slots__ = ("added", "body", "mode", "status")

    def __init__(self, headers: list[Header], mode: int, decision: Decision) -> None:
        self.mode = mode
        self.added = [MARK]
        """Headers added for the client."""
        named = dict(headers)
        status = named.get(b":status", b"")
        self.status = int(status) if status.isdigit() and len(status) == 3 else 200
        self.status = _OF_GRPC.get(named.get(b"grpc-status", b"0"), self.status)
        """As in HTTP: a gRPC call that fails at once says so in a header of its own."""
        self.body = ResponseBody(self.status, headers, decision, holds=mode == extproc.FULL_DUPLEX_STREAMED)

    def head(self) -> bytes:
        """The reply to the headers."""
        removed = []
        if self.body.is_changed and self.mode != extproc.BUFFERED:
            removed.append(b"content-length")
        if len(self.added) == 1 and not removed:
            return _USUAL_HEAD
        return replies.headers(extproc.Mutation(self.added, removed), is_response=True)

    def part(self, data: bytes, *, is_end: bool, has_trailers: bool = False) -> Sequence[bytes]:
        """The replies to a part of the body."""
        if has_trailers and self.mode != extproc.FULL_DUPLEX_STREAMED:
            return ()
        passed = self.body.feed(data, is_end=is_end)
        if self.mode == extproc.FULL_DUPLEX_STREAMED:
            return replies.streamed(passed, is_response=True, is_end=is_end and not has_trailers)
        if not self.body.is_changed:
            return (replies.changed(None),)
        if self.mode == extproc.BUFFERED:
            length = extproc.SetHeader(b"content-length", b"%d" % len(passed))
            return (replies.changed(passed, extproc.Mutation([length])),)
        return (replies.changed(passed),)
