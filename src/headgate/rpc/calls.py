"""What services of a server implement, and what they are given: one handler and one `ServerCall` per call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from headgate.http2 import errors, frames, hpack
from headgate.http2.connection import Connection
from headgate.http2.hpack import Headers
from headgate.http2.stream import Stream
from headgate.rpc import messages, status
from headgate.rpc.errors import CallError
from headgate.rpc.messages import MessageReader

_log = logging.getLogger(__name__)

_BEGIN: Final = hpack.encode([(b":status", b"200"), (b"content-type", b"application/grpc")])
_OK: Final = hpack.encode([(b"grpc-status", b"0")])


class CallHandler(Protocol):
    """One call, as a service sees it. Of a call that has ended, or that it has finished, it hears no more."""

    def message(self, data: bytes) -> None:
        """A message of the client."""

    def half_closed(self) -> None:
        """The client sends no more messages; it waits for `finish`."""

    def cancelled(self) -> None:
        """The call ended early: by the client, with its connection, by a limit or its deadline."""


class ServerCall:
    """One call of a client: what came with it, and what is sent back."""

    __slots__ = (
        "_connection",
        "_deadline",
        "_handler",
        "_reader",
        "_stream",
        "headers",
        "on_drained",
        "path",
    )

    def __init__(
        self, connection: Connection, stream: Stream, path: str, headers: Headers, reader: MessageReader
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._reader = reader
        self._handler: CallHandler | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self.path = path
        """Such as "/grpc.health.v1.Health/Check"."""
        self.headers = headers
        """All of them, with the pseudo-headers, in lower case."""
        self.on_drained: Callable[[], None] | None = None
        """Called when the call was not writable, and is again."""

    def start(self, handler: CallHandler, timeout_s: float | None) -> None:
        """Let the handler take the call, unless it has finished it already."""
        if self.is_finished:
            return
        self._handler = handler
        if timeout_s is not None:
            self._deadline = asyncio.get_running_loop().call_later(timeout_s, self._expire)

    # -- for services

    def header(self, name: bytes) -> bytes | None:
        """The first value of a header, by its name in lower case."""
        for each, value in self.headers:
            if each == name:
                return value
        return None

    @property
    def peer(self) -> tuple[str, int] | str:
        """Host and port of the client."""
        return self._connection.peer_address

    @property
    def is_finished(self) -> bool:
        """Whether it was finished or has ended otherwise: then nothing can be sent."""
        return self._stream.user is not self

    @property
    def is_writable(self) -> bool:
        """False if the client does not take messages as fast as they are sent; `on_drained` says when it does
        again."""
        return not self._stream.is_full

    def send(self, message: bytes) -> None:
        """Send a message. Of a call that is finished or has ended, nothing is sent."""
        stream = self._stream
        if stream.user is not self:
            return
        connection = self._connection
        http2 = connection.http2
        if not stream.was_answered:
            stream.was_answered = True
            http2.sender.control(frames.frame(frames.HEADERS, stream.id, _BEGIN, frames.END_HEADERS))
        if not http2.send(stream, message, messages.prefix(len(message))):
            http2.fail(stream, errors.CANCEL, "unsent messages of all calls together exceed their limit")
        connection.flush_soon()

    def finish(self, code: int = status.OK, message: str = "") -> None:
        """End the call with a status, behind the messages that were sent. Only the first time counts."""
        stream = self._stream
        if stream.user is not self:
            return
        self._release()
        block = _OK if code == status.OK and not message else _status(code, message)
        if not stream.was_answered:
            stream.was_answered = True
            block = _BEGIN + block
        flags = frames.END_HEADERS | frames.END_STREAM
        self._connection.http2.end(stream, frames.frame(frames.HEADERS, stream.id, block, flags))
        self._connection.flush_soon()

    def pause(self) -> None:
        """Let the client send only as much as its window still allows."""
        self._connection.http2.pause(self._stream)

    def resume(self) -> None:
        """Let the client send again."""
        self._connection.http2.resume(self._stream)
        self._connection.flush_soon()

    # -- User of its stream

    def receive(self, data: bytes, begin: int, end: int) -> None:
        self._reader.read(self._connection.http2, self._stream, self, data, begin, end)

    def take(self, message: bytes) -> None:
        assert self._handler is not None
        try:
            self._handler.message(message)
        except Exception:
            self.break_off("message")

    def receive_headers(self, headers: Headers) -> None:
        self.reject(CallError(status.INTERNAL, "headers between messages"))

    def receive_end(self, headers: Headers) -> None:
        if not self._reader.is_between:
            self.reject(CallError(status.INTERNAL, "the stream ended within a message"))
            return
        assert self._handler is not None
        try:
            self._handler.half_closed()
        except Exception:
            self.break_off("half_closed")

    def reject(self, fault: CallError) -> None:
        handler = self._handler
        self.finish(fault.status, fault.message)
        self._cancel(handler)

    def expire(self) -> None:
        self.reject(CallError(status.DEADLINE_EXCEEDED, "a message was incomplete for too long"))

    def lose(self, code: int, reason: str, is_unprocessed: bool) -> None:
        handler = self._handler
        self._release()
        self._cancel(handler)

    def tell_writable(self) -> None:
        if self.on_drained is not None:
            try:
                self.on_drained()
            except Exception:
                self.break_off("on_drained")

    def _expire(self) -> None:
        self.reject(CallError(status.DEADLINE_EXCEEDED, "the call exceeded its grpc-timeout"))

    def break_off(self, method: str) -> None:
        """The handler has raised an exception: end this call alone."""
        _log.exception("%s: %s of its handler failed", self.path, method)
        self.reject(CallError(status.INTERNAL, "the handler of the call failed"))

    def _release(self) -> None:
        """Break the cycles of references of a call that has ended, and forget its incomplete message."""
        self._reader.drop()
        self._handler = None
        self.on_drained = None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cancel(self, handler: CallHandler | None) -> None:
        if handler is not None:
            try:
                handler.cancelled()
            except Exception:
                _log.exception("%s: cancelled of its handler failed", self.path)


def _status(code: int, message: str) -> bytes:
    headers = [(b"grpc-status", b"%d" % code)]
    if message:
        headers.append((b"grpc-message", status.encoded(message)))
    if code == status.UNIMPLEMENTED:
        headers.append((b"grpc-accept-encoding", b"identity"))
    return hpack.encode(headers)


Services = Mapping[str, Callable[[ServerCall], CallHandler]]
"""What opens calls, by their path "/package.Service/Method"."""
