"""A connection to a gRPC server, with many calls at a time. Its user reconnects, and retries what was not
processed."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Final, Protocol

from headgate import loop_turns
from headgate.http2 import errors, frames, hpack
from headgate.http2.connection import Connection
from headgate.http2.hpack import Header, Headers
from headgate.http2.limits import Holdings
from headgate.http2.stream import Stream
from headgate.rpc import messages, status
from headgate.rpc.errors import CallError
from headgate.rpc.limits import Limits
from headgate.rpc.messages import MessageReader
from headgate.rpc.status import Status

_log = logging.getLogger(__name__)

SWEEP_S: Final = 1.0
_MAX_STREAM_ID: Final = 0x7FFFFFFF - 2
_OF_HTTP: Final = {
    b"400": status.INTERNAL,
    b"401": status.UNAUTHENTICATED,
    b"403": status.PERMISSION_DENIED,
    b"404": status.UNIMPLEMENTED,
    b"429": status.UNAVAILABLE,
    b"502": status.UNAVAILABLE,
    b"503": status.UNAVAILABLE,
    b"504": status.UNAVAILABLE,
}
_OF_RESET: Final = {
    errors.REFUSED_STREAM: status.UNAVAILABLE,
    errors.CONNECT_ERROR: status.UNAVAILABLE,
    errors.CANCEL: status.CANCELLED,
    errors.ENHANCE_YOUR_CALM: status.RESOURCE_EXHAUSTED,
}


class Receiver(Protocol):
    """Who hears of one call."""

    def message(self, data: bytes) -> None:
        """A message of the server."""

    def closed(self, status: Status) -> None:
        """The call has ended, once. Nothing comes after it; not if it was cancelled from this side."""


class ClientCall:
    """One call to the server."""

    __slots__ = ("_connection", "_deadline", "_reader", "_receiver", "_stream", "headers", "on_drained")

    def __init__(
        self, connection: Connection, stream: Stream, receiver: Receiver, reader: MessageReader
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._reader = reader
        self._receiver: Receiver | None = receiver
        self._deadline: asyncio.TimerHandle | None = None
        self.headers: Headers = ()
        """Of the response, from its first message on."""
        self.on_drained: Callable[[], None] | None = None
        """Called when the call was not writable, and is again."""

    def expire_in(self, timeout_s: float) -> None:
        """End the call with DEADLINE_EXCEEDED after this time."""
        self._deadline = asyncio.get_running_loop().call_later(timeout_s, self._expire)

    # -- for the user

    @property
    def is_closed(self) -> bool:
        """Whether it has ended: then nothing can be sent."""
        return self._receiver is None

    @property
    def is_writable(self) -> bool:
        """False if the server does not take messages as fast as they are sent; `on_drained` says when it does
        again."""
        return not self._stream.is_full

    def send(self, message: bytes) -> None:
        """Send a message; nothing is sent behind `half_close`, or if the call has ended."""
        stream = self._stream
        if self._receiver is None or stream.is_sent or stream.ends is not None:
            return
        http2 = self._connection.http2
        if not http2.send(stream, message, messages.prefix(len(message))):
            http2.fail(stream, errors.ENHANCE_YOUR_CALM, "unsent messages of all calls exceed their limit")
        self._connection.flush_soon()

    def half_close(self) -> None:
        """Say that no more messages are sent."""
        stream = self._stream
        if self._receiver is None or stream.is_sent or stream.ends is not None:
            return
        self._connection.http2.end(stream, frames.frame(frames.DATA, stream.id, b"", frames.END_STREAM))
        self._connection.flush_soon()

    def cancel(self) -> None:
        """End the call at once. Its receiver hears nothing more."""
        if self._receiver is not None:
            self._release()
            self._connection.http2.cancel(self._stream, errors.CANCEL)
            self._connection.flush_soon()

    def pause(self) -> None:
        """Let the server send only as much as its window still allows."""
        self._connection.http2.pause(self._stream)

    def resume(self) -> None:
        """Let the server send again."""
        self._connection.http2.resume(self._stream)
        self._connection.flush_soon()

    # -- User of its stream

    def receive(self, data: bytes, begin: int, end: int) -> None:
        self._reader.read(self._connection.http2, self._stream, self, data, begin, end)

    def take(self, message: bytes) -> None:
        if self._receiver is not None:
            try:
                self._receiver.message(message)
            except Exception:
                _log.exception("message of the receiver of a call failed")
                self.cancel()

    def receive_headers(self, headers: Headers) -> None:
        if not _value(headers, b":status").startswith(b"1"):
            if self.headers:
                self.reject(CallError(status.INTERNAL, "headers between messages"))
            self.headers = headers

    def receive_end(self, headers: Headers) -> None:
        if not self._reader.is_between:
            self.reject(CallError(status.INTERNAL, "the stream ended within a message"))
            return
        self._close(_status(headers, self.headers or headers))

    def reject(self, fault: CallError) -> None:
        self._close(Status(fault.status, fault.message))

    def expire(self) -> None:
        self.reject(CallError(status.DEADLINE_EXCEEDED, "a message was incomplete for too long"))

    def lose(self, code: int, reason: str, is_unprocessed: bool) -> None:
        found = _OF_RESET.get(code, status.INTERNAL)
        self._close(Status(found, f"{reason} ({errors.name(code)})", is_unprocessed))

    def tell_writable(self) -> None:
        if self.on_drained is not None:
            try:
                self.on_drained()
            except Exception:
                _log.exception("on_drained of a call failed")
                self.cancel()

    def _expire(self) -> None:
        self._close(Status(status.DEADLINE_EXCEEDED, "the server has not responded in time"))

    def _close(self, ended: Status) -> None:
        receiver = self._receiver
        if receiver is None:
            return
        self._release()
        if not (self._stream.is_sent and self._stream.is_received):
            self._connection.http2.cancel(self._stream, errors.CANCEL)
            self._connection.flush_soon()
        try:
            receiver.closed(ended)
        except Exception:
            _log.exception("closed of the receiver of a call failed")

    def _release(self) -> None:
        """Break the cycles of references of a call that has ended, and forget its incomplete message."""
        self._reader.drop()
        self._receiver = None
        self.on_drained = None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Client:
    """One connection to a server, made by `connect`."""

    def __init__(self, limits: Limits, lost: Callable[[str], None] | None) -> None:
        self._limits = limits
        self._held = Holdings(limits.max_held_bytes)
        self._lost = lost
        self._connection: Connection | None = None
        self._scheme = b"http"
        self._authority = b""
        self._blocks: dict[tuple[str, tuple[Header, ...]], bytes] = {}
        """Headers by path and metadata: most calls have the same."""
        self._sweeping: asyncio.TimerHandle | None = None

    # -- for the user

    @property
    def is_usable(self) -> bool:
        """Whether another call can be made now."""
        connection = self._connection
        if connection is None or not connection.is_open:
            return False
        http2 = connection.http2
        return (
            not http2.peer.is_leaving
            and len(http2.streams) < http2.peer.max_calls
            and http2.last_stream_id < _MAX_STREAM_ID
        )

    @property
    def calls(self) -> int:
        """Calls in progress."""
        return len(self._connection.http2.streams) if self._connection is not None else 0

    def call(
        self,
        path: str,
        receiver: Receiver,
        *,
        timeout_s: float | None = None,
        metadata: tuple[Header, ...] = (),
    ) -> ClientCall:
        """Begin a call of "/package.Service/Method".

        Raises CallError with UNAVAILABLE if the connection is not usable.
        """
        connection = self._connection
        if connection is None or not self.is_usable:
            raise CallError(status.UNAVAILABLE, "the connection has ended, or has its most calls in progress")
        http2 = connection.http2
        block = self._block(path, metadata)
        if timeout_s is not None:
            block += hpack.encode(((b"grpc-timeout", status.timeout_header(timeout_s)),))
        stream = http2.begin()
        reader = MessageReader(self._limits.max_message_bytes, self._held)
        call = ClientCall(connection, stream, receiver, reader)
        stream.user = call
        http2.sender.control(frames.header_frames(stream.id, block, 0))
        if timeout_s is not None:
            call.expire_in(timeout_s)
        connection.flush_soon()
        return call

    def close(self) -> None:
        """Close the connection; calls in progress end with UNAVAILABLE."""
        if self._connection is not None:
            self._connection.end(errors.NO_ERROR, "the connection was closed")

    def _block(self, path: str, metadata: tuple[Header, ...]) -> bytes:
        known = self._blocks.get((path, metadata))
        if known is None:
            if len(self._blocks) >= 16:
                self._blocks.clear()
            known = self._blocks[path, metadata] = hpack.encode(
                (
                    (b":method", b"POST"),
                    (b":scheme", self._scheme),
                    (b":path", path.encode()),
                    (b":authority", self._authority),
                    (b"te", b"trailers"),
                    (b"content-type", b"application/grpc"),
                    *metadata,
                )
            )
        return known

    def protocol(self, turns: loop_turns.Turns) -> Connection:
        """The protocol of its connection."""
        return Connection(self, turns, self._limits, self._held, is_client=True)

    # -- Role of its connection

    def opened(self, connection: Connection, stream: Stream, headers: Headers) -> None:
        """Servers begin no calls."""

    def made(self, connection: Connection) -> None:
        self._connection = connection
        self._sweep()

    def lost(self, connection: Connection, reason: str) -> None:
        self._connection = None
        if self._sweeping is not None:
            self._sweeping.cancel()
        if self._lost is not None:
            self._lost(reason)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweeping = loop.call_later(SWEEP_S, self._sweep)
        if self._connection is not None:
            self._connection.sweep(loop.time())

    def name(self, scheme: bytes, authority: str) -> None:
        """Set how calls name the server."""
        self._scheme, self._authority = scheme, authority.encode()


async def connect(
    host: str,
    port: int,
    turns: loop_turns.Turns,
    *,
    limits: Limits | None = None,
    tls: ssl.SSLContext | None = None,
    server_name: str | None = None,
    lost: Callable[[str], None] | None = None,
) -> Client:
    """Connect to a server; `tls`: as `tls.for_client` makes it. `lost` hears why the connection has ended.

    Raises OSError.
    """
    limits = limits or Limits()
    client = Client(limits, lost)
    named = server_name or host
    authority = f"[{named}]:{port}" if ":" in named else f"{named}:{port}"
    client.name(b"http" if tls is None else b"https", authority)
    _, connection = await asyncio.get_running_loop().create_connection(
        lambda: client.protocol(turns),
        host,
        port,
        ssl=tls,
        server_hostname=named if tls is not None else None,
    )
    if not connection.is_open:
        raise ConnectionError(f"{host}:{port}: {connection.reason}")
    return client


def _value(headers: Headers, name: bytes) -> bytes:
    return next((value for each, value in headers if each == name), b"")


def _status(trailers: Headers, headers: Headers) -> Status:
    """How a call ended, by its trailers or else by its HTTP status."""
    code = _value(trailers, b"grpc-status")
    if code.isdigit() and len(code) < 5:
        return Status(int(code), status.decoded(_value(trailers, b"grpc-message")))
    http = _value(headers, b":status")
    if http == b"200":
        return Status(status.UNKNOWN, "the response has no grpc-status")
    shown = http.decode("latin-1")
    return Status(_OF_HTTP.get(http, status.UNKNOWN), f"the server responded with HTTP status {shown!r}")
