"""The calls on one HTTP/2 connection, as streams, and what is sent on them: both sides, without a socket."""

from __future__ import annotations

from typing import Final

from headgate.rpc import errors, frames, status
from headgate.rpc.allowance import Allowances
from headgate.rpc.errors import CallError, Http2Error
from headgate.rpc.limits import Holdings, Limits
from headgate.rpc.messages import MessageReader
from headgate.rpc.peer import Peer
from headgate.rpc.sender import Sender
from headgate.rpc.stream import Stream

ALL_STREAMS: Final = 0x7FFFFFFF


class Http2:
    """One side of a connection. Changed by its receiver, its socket and its calls, in one thread."""

    __slots__ = (
        "_held",
        "accepted_until",
        "allowances",
        "incomplete",
        "is_client",
        "last_stream_id",
        "limits",
        "peer",
        "sender",
        "streams",
    )

    def __init__(self, limits: Limits, held: Holdings, now_s: float, *, is_client: bool) -> None:
        self.limits = limits
        self._held = held
        self.is_client = is_client
        self.peer = Peer(is_server=is_client)
        self.sender = Sender(held, limits.high_water_bytes)
        self.allowances = Allowances(now_s)
        self.streams: dict[int, Stream] = {}
        self.incomplete: dict[int, Stream] = {}
        """Streams with an incomplete message."""
        self.last_stream_id = 0
        """The last one that was begun: by the peer of a server, by a client itself."""
        self.accepted_until = ALL_STREAMS
        """Calls of the peer with a greater number are refused."""
        self._greet()

    def _greet(self) -> None:
        limits = self.limits
        values = [
            (frames.MAX_CONCURRENT_STREAMS, limits.max_calls),
            (frames.INITIAL_WINDOW_SIZE, limits.call_window_bytes),
            (frames.MAX_HEADER_LIST_SIZE, limits.max_header_bytes),
        ]
        if self.is_client:
            values[0] = (frames.ENABLE_PUSH, 0)
            self.sender.control(frames.PREFACE)
        self.sender.control(frames.settings(values))
        grown = limits.connection_window_bytes - frames.DEFAULT_WINDOW
        if grown:
            self.sender.control(frames.window_update(0, grown))

    # -- for calls

    def begin(self) -> Stream:
        """A new stream of a client, whose headers are to be sent next."""
        self.last_stream_id = number = self.last_stream_id + 2 if self.last_stream_id else 1
        self.allowances.calls += 1
        return self.new_stream(number)

    def send(self, stream: Stream, message: bytes) -> bool:
        """Send a message. False, and the call has to end, if there is no space to queue it."""
        return self.sender.message(stream, message)

    @property
    def is_full(self) -> bool:
        """Whether no further call of the peer is accepted now."""
        limits = self.limits
        return len(self.streams) >= limits.max_calls or self._held.calls >= limits.max_all_calls

    def end(self, stream: Stream, frame: bytes) -> None:
        """End this side of a stream, behind its messages, with `frame`. A server takes no more of it."""
        if not self.is_client:
            stream.user = None
        if self.sender.end(stream, frame):
            self._sent(stream)

    def _sent(self, stream: Stream) -> None:
        """This side of a stream has ended."""
        stream.is_sent = True
        if not stream.is_received:
            if self.is_client:
                return
            self.sender.control(frames.reset(stream.id, errors.NO_ERROR))
        self.forget(stream)

    def cancel(self, stream: Stream, code: int) -> None:
        """End a stream at once, in both directions. Its user hears nothing more."""
        stream.user = None
        if self.streams.get(stream.id) is stream:
            self.sender.control(frames.reset(stream.id, code))
            self.forget(stream)

    def fail(self, stream: Stream, code: int, reason: str, *, is_unprocessed: bool = False) -> None:
        """End a stream at once, and tell its user."""
        user = stream.user
        self.cancel(stream, code)
        if user is not None:
            user.lose(code, reason, is_unprocessed)

    def pause(self, stream: Stream) -> None:
        """Let the peer send only what its window still allows."""
        stream.is_paused = True

    def resume(self, stream: Stream) -> None:
        stream.is_paused = False
        if self.streams.get(stream.id) is stream:
            self.grant(stream)

    def forget(self, stream: Stream) -> None:
        stream.user = None
        if self.streams.pop(stream.id, None) is not None:
            self._held.calls -= 1
            if not stream.reader.is_between:
                stream.reader.drop()
                self.incomplete.pop(stream.id, None)
            if stream.queue is not None:
                self.sender.drop(stream)

    # -- for the receiver

    def new_stream(self, number: int) -> Stream:
        limits = self.limits
        reader = MessageReader(limits.max_message_bytes, self._held)
        stream = Stream(number, self.sender.initial_window, limits.call_window_bytes, reader)
        self.streams[number] = stream
        self._held.calls += 1
        return stream

    def grant(self, stream: Stream) -> None:
        """Let the peer send as much as at first on this stream, unless it is paused."""
        if stream.receive_window < 0:
            raise Http2Error(errors.FLOW_CONTROL_ERROR, f"the peer exceeds the window of stream {stream.id}")
        grown = self.limits.call_window_bytes - stream.receive_window
        if grown and not stream.is_paused and not stream.is_received:
            stream.receive_window += grown
            self.sender.control(frames.window_update(stream.id, grown))

    # -- for the socket

    def take(self) -> bytes:
        """The bytes to write now: all that was sent, and as much of what is queued as may be sent."""
        sender = self.sender
        if sender.blocked:
            drained = sender.pump()
            for stream in drained:
                if (user := stream.user) is not None:
                    user.tell_writable()
        if sender.ended:
            ended, sender.ended = sender.ended, []
            for stream in ended:
                self._sent(stream)
        return sender.take() if sender.out else b""

    def goaway(self, code: int, debug: str = "") -> None:
        """Announce the end: no further calls are accepted."""
        self.accepted_until = self.last_stream_id
        last = 0 if self.is_client else self.last_stream_id
        self.sender.control(frames.goaway(last, code, debug.encode("utf-8", "replace")[:200]))

    def announce_goaway(self, ping: bytes) -> None:
        """Announce that the end comes as soon as the peer has answered the PING: calls that are in transit
        are still accepted (RFC 9113, 6.8)."""
        self.sender.control(frames.goaway(ALL_STREAMS, errors.NO_ERROR) + frames.ping(ping))

    def sweep(self, now_s: float) -> None:
        """End calls that have been stalled or incomplete for too long; to be called every few seconds."""
        for stream in [*self.incomplete.values()]:
            reader = stream.reader
            if stream.is_paused or reader.since_s is None:
                reader.since_s = now_s
            elif now_s - reader.since_s > self.limits.incomplete_timeout_s and (user := stream.user):
                user.reject(CallError(status.DEADLINE_EXCEEDED, "a message was incomplete for too long"))
        for stream in [*self.sender.blocked.values()]:
            if stream.stalled_since_s is None:
                stream.stalled_since_s = now_s
            elif now_s - stream.stalled_since_s > self.limits.stall_timeout_s:
                self.fail(stream, errors.CANCEL, "the peer has not taken messages for too long")
