"""The streams on one connection, and what is sent on them: both sides, without a socket."""

from __future__ import annotations

from typing import Final

from headgate.http2 import errors, frames
from headgate.http2.allowance import Allowances
from headgate.http2.errors import Http2Error
from headgate.http2.limits import Holdings, Limits
from headgate.http2.peer import Peer
from headgate.http2.sender import Sender
from headgate.http2.stream import Stream

ALL_STREAMS: Final = 0x7FFFFFFF


class Http2:
    """One side of a connection. Changed by its receiver, its socket and its users, in one thread."""

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
        self.allowances = Allowances(now_s, limits)
        self.streams: dict[int, Stream] = {}
        self.incomplete: dict[int, Stream] = {}
        """Streams whose users wait for the rest of something."""
        self.last_stream_id = 0
        """The last one that was begun: by the peer of a server, by a client itself."""
        self.accepted_until = ALL_STREAMS
        """Streams of the peer with a greater number are refused."""
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

    # -- for the users of streams

    def begin(self) -> Stream:
        """A new stream of a client, whose headers are to be sent next."""
        self.last_stream_id = number = self.last_stream_id + 2 if self.last_stream_id else 1
        self.allowances.calls += 1
        return self.new_stream(number)

    def send(self, stream: Stream, data: bytes, prefix: bytes = b"") -> bool:
        """Send data, behind a short prefix. False, and the stream has to end, if there is no space for it."""
        return self.sender.data(stream, data, prefix)

    def send_last(self, stream: Stream, data: bytes) -> bool:
        """Send the last data of this side of a stream. False, and the stream has to end, if there is no space
        to queue it. A server takes no more of the stream."""
        if self.sender.takes(stream, len(data)):
            if not self.is_client:
                stream.user = None
            self.sender.put(stream, data, frames.END_STREAM)
            self._sent(stream)
            return True
        if not self.sender.data(stream, data):
            return False
        self.end(stream, frames.frame(frames.DATA, stream.id, b"", frames.END_STREAM))
        return True

    @property
    def is_full(self) -> bool:
        """Whether no further stream of the peer is accepted now."""
        limits = self.limits
        return len(self.streams) >= limits.max_calls or self._held.calls >= limits.max_all_calls

    def end(self, stream: Stream, frame: bytes) -> None:
        """End this side of a stream, behind its data, with `frame`. A server takes no more of it."""
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

    def await_rest(self, stream: Stream, *, is_awaited: bool) -> None:
        """Note whether the user of a stream waits for the rest of something, for a limited time."""
        if not is_awaited:
            self.incomplete.pop(stream.id, None)
            stream.incomplete_since_s = None
        elif self.streams.get(stream.id) is stream:
            self.incomplete[stream.id] = stream

    def forget(self, stream: Stream) -> None:
        stream.user = None
        if self.streams.pop(stream.id, None) is not None:
            self._held.calls -= 1
            if self.incomplete:
                self.incomplete.pop(stream.id, None)
            if stream.queue is not None:
                self.sender.drop(stream)

    # -- for the receiver

    def new_stream(self, number: int) -> Stream:
        limits = self.limits
        stream = Stream(number, self.sender.initial_window, limits.call_window_bytes)
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
        """Announce the end: no further streams are accepted."""
        self.accepted_until = self.last_stream_id
        last = 0 if self.is_client else self.last_stream_id
        self.sender.control(frames.goaway(last, code, debug.encode("utf-8", "replace")[:200]))

    def announce_goaway(self, ping: bytes) -> None:
        """Announce that the end comes as soon as the peer has answered the PING: streams that are in transit
        are still accepted (RFC 9113, 6.8)."""
        self.sender.control(frames.goaway(ALL_STREAMS, errors.NO_ERROR) + frames.ping(ping))

    def sweep(self, now_s: float) -> None:
        """End streams that have been stalled or incomplete for too long; to be called every few seconds."""
        for stream in [*self.incomplete.values()]:
            if stream.is_paused or stream.incomplete_since_s is None:
                stream.incomplete_since_s = now_s
            elif now_s - stream.incomplete_since_s > self.limits.incomplete_timeout_s and (
                user := stream.user
            ):
                user.expire()
        for stream in [*self.sender.blocked.values()]:
            if stream.stalled_since_s is None:
                stream.stalled_since_s = now_s
            elif now_s - stream.stalled_since_s > self.limits.stall_timeout_s:
                self.fail(stream, errors.CANCEL, "the peer has not taken data for too long")
