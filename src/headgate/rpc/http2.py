"""The state of one HTTP/2 connection that carries gRPC calls, without its socket: both sides.

`receive` takes bytes and tells calls what arrived; what is sent gathers in `sender`. All that a peer sends is
bounded: the size of frames, the number of those without content, calls in progress, and bytes held for them.
"""

from __future__ import annotations

from time import perf_counter
from typing import Final, Protocol

from headgate.rpc import errors, frames, status
from headgate.rpc.allowance import Allowances
from headgate.rpc.errors import CallError, Http2Error
from headgate.rpc.header_blocks import HeaderBlocks
from headgate.rpc.hpack import Headers
from headgate.rpc.limits import HeldBytes, Limits
from headgate.rpc.messages import MessageReader
from headgate.rpc.peer import Peer
from headgate.rpc.sender import Sender
from headgate.rpc.stream import Stream

_STREAM_MASK: Final = 0x7FFFFFFF
_ALL_STREAMS: Final = 0x7FFFFFFF


class Owner(Protocol):
    """Who hears of what concerns the connection, and not a known call."""

    def opened(self, stream: Stream, headers: Headers) -> None:
        """The peer has begun a call; the owner may set the stream's user."""

    def acknowledged(self, data: bytes) -> None:
        """The peer has answered a PING."""

    def leaving(self) -> None:
        """The peer has announced that it accepts no further calls (GOAWAY)."""


class Http2:
    """One side of a connection. Changed by its socket's owner and by its calls, in one thread."""

    __slots__ = (
        "_accepted_until",
        "_allowances",
        "_blocks",
        "_held",
        "_incomplete",
        "_is_client",
        "_limits",
        "_partial",
        "_receive_window",
        "last_stream_id",
        "peer",
        "sender",
        "streams",
    )

    def __init__(self, limits: Limits, held: HeldBytes, now_s: float, *, is_client: bool) -> None:
        self._limits = limits
        self._held = held
        self._is_client = is_client
        self._allowances = Allowances(now_s)
        self._blocks = HeaderBlocks(limits.max_header_bytes)
        self._partial = b""
        """The beginning of an incomplete frame."""
        self._receive_window = limits.connection_window_bytes
        """What the peer may still send."""
        self._incomplete: dict[int, Stream] = {}
        """Streams with an incomplete message."""
        self._accepted_until = _ALL_STREAMS
        self.peer = Peer(is_server=is_client)
        self.sender = Sender(held, limits.high_water_bytes)
        self.streams: dict[int, Stream] = {}
        self.last_stream_id = 0
        """The last one that was begun: by the peer of a server, by a client itself."""
        self._greet()

    def _greet(self) -> None:
        limits = self._limits
        values = [
            (frames.MAX_CONCURRENT_STREAMS, limits.max_calls),
            (frames.INITIAL_WINDOW_SIZE, limits.call_window_bytes),
            (frames.MAX_HEADER_LIST_SIZE, limits.max_header_bytes),
        ]
        if self._is_client:
            values[0] = (frames.ENABLE_PUSH, 0)
            self.sender.control(frames.PREFACE)
        self.sender.control(frames.settings(values))
        grown = limits.connection_window_bytes - frames.DEFAULT_WINDOW
        self.sender.control(frames.window_update(0, grown))

    # -- receiving

    def receive(self, data: bytes, owner: Owner, now_s: float, until_s: float) -> bytes:
        """Process frames, until `perf_counter` has reached `until_s`. Returns the rest, to be received again.

        Raises Http2Error.
        """
        if self._partial:
            data, self._partial = self._partial + data, b""
        at, size = 0, len(data)
        if not self.peer.has_preface:
            if not self._takes_preface(data):
                return b""
            at = len(frames.PREFACE)
        unpack, blocks = frames.HEAD.unpack_from, self._blocks
        is_plain = self.peer.is_greeted and not blocks.stream_id
        while at + frames.HEADER_BYTES <= size:
            high, low, kind, flags, number = unpack(data, at)
            length = high << 8 | low
            if length > frames.MAX_FRAME_BYTES:
                raise Http2Error(errors.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
            begin = at + frames.HEADER_BYTES
            at = begin + length
            if at > size:
                at = begin - frames.HEADER_BYTES
                break
            number &= _STREAM_MASK
            if is_plain and kind == frames.DATA:
                self._data(number, flags, data, begin, at, now_s)
            elif is_plain and kind == frames.HEADERS:
                self._block(number, blocks.begin(number, flags, data[begin:at]), owner, now_s)
                is_plain = not blocks.stream_id
            else:
                self._control(kind, number, flags, data[begin:at], owner, now_s)
                is_plain = self.peer.is_greeted and not blocks.stream_id
            if perf_counter() >= until_s and at < size:
                return data[at:]
        if at < size:
            self._partial = data[at:]
        return b""

    def _takes_preface(self, data: bytes) -> bool:
        """Whether all of the peer's preface is there."""
        if not data.startswith(frames.PREFACE):
            if not frames.PREFACE.startswith(data):
                raise Http2Error(errors.PROTOCOL_ERROR, f"the client speaks no HTTP/2: {data[:16]!r}")
            self._partial = data
            return False
        self.peer.has_preface = True
        return True

    def _data(self, number: int, flags: int, data: bytes, begin: int, end: int, now_s: float) -> None:
        size = end - begin
        if size == 0 and not flags & frames.END_STREAM:
            self._spend(0, now_s)
        self._receive_window -= size
        if self._receive_window < self._limits.connection_window_bytes >> 1:
            self._grant_all()
        stream = self.streams.get(number)
        if stream is None:
            self._on_closed_stream(number, size, now_s)
            return
        if stream.is_received:
            raise Http2Error(errors.STREAM_CLOSED, f"DATA behind the end of stream {number}")
        stream.receive_window -= size
        if stream.receive_window < self._limits.call_window_bytes >> 1:
            self._grant(stream)
        if flags & frames.PADDED:
            begin, end = _unpadded(data, begin, end)
        if (user := stream.user) is not None:
            reader = stream.reader
            first = begin + frames.PREFIX_BYTES
            if (
                first <= end
                and reader.is_between
                and first + int.from_bytes(data[begin:first], "big") == end
                and end - first <= self._limits.max_message_bytes
            ):
                user.receive(data[first:end])
            elif begin < end:
                self._pieces(stream, data[begin:end])
        if flags & frames.END_STREAM:
            self._received(stream, ())

    def _pieces(self, stream: Stream, payload: bytes) -> None:
        """Take a payload that is not exactly one message."""
        reader = stream.reader
        for message in reader.feed(payload):
            if (user := stream.user) is None:
                reader.drop()
                break
            user.receive(message)
        if reader.fault is not None and (user := stream.user) is not None:
            user.reject(reader.fault)
        if reader.is_between:
            self._incomplete.pop(stream.id, None)
        elif stream.id in self.streams:
            self._incomplete[stream.id] = stream

    def _received(self, stream: Stream, headers: Headers) -> None:
        """The peer has ended its side of a stream."""
        stream.is_received = True
        if (user := stream.user) is not None:
            if stream.reader.is_between:
                user.receive_end(headers)
            else:
                user.reject(CallError(status.INTERNAL, "the stream ended within a message"))
        if stream.is_sent:
            self._forget(stream)

    def _block(self, number: int, block: tuple[Headers, bool] | None, owner: Owner, now_s: float) -> None:
        """Headers are complete, unless `block` is None."""
        if block is None:
            self._spend(0, now_s)
            return
        headers, is_last = block
        stream = self.streams.get(number)
        if stream is None:
            if self._is_client or number <= self.last_stream_id:
                self._on_closed_stream(number, 0, now_s)
                return
            stream = self._opened(number, now_s)
            if stream is not None:
                owner.opened(stream, headers)
                if is_last:
                    self._received(stream, ())
        elif stream.is_received:
            raise Http2Error(errors.STREAM_CLOSED, f"HEADERS behind the end of stream {number}")
        elif is_last:
            self._received(stream, headers)
        elif (user := stream.user) is not None:
            self._spend(0, now_s)
            user.receive_headers(headers)

    def _opened(self, number: int, now_s: float) -> Stream | None:
        """A new stream of the peer; None if it is refused."""
        if number % 2 == 0:
            raise Http2Error(errors.PROTOCOL_ERROR, f"a client began stream {number}, which is even")
        self.last_stream_id = number
        if len(self.streams) >= self._limits.max_calls or number > self._accepted_until:
            self._spend(0, now_s)
            self.sender.control(frames.reset(number, errors.REFUSED_STREAM))
            return None
        self._allowances.call_began()
        return self._new_stream(number)

    def _new_stream(self, number: int) -> Stream:
        limits = self._limits
        reader = MessageReader(limits.max_message_bytes, self._held)
        stream = Stream(number, self.sender.initial_window, limits.call_window_bytes, reader)
        self.streams[number] = stream
        return stream

    def _on_closed_stream(self, number: int, size: int, now_s: float) -> None:
        """A frame arrived for a stream that has ended here: it may have been in transit."""
        is_known = number % 2 == 1 and number <= self.last_stream_id
        if not is_known:
            raise Http2Error(errors.PROTOCOL_ERROR, f"a frame of stream {number}, which nobody began")
        if size < frames.MAX_FRAME_BYTES >> 6:
            self._spend(size, now_s)

    def _spend(self, size: int, now_s: float) -> None:
        if not self._allowances.frame(size, now_s):
            raise Http2Error(
                errors.ENHANCE_YOUR_CALM, "the peer sends too many frames that carry no messages"
            )

    def _grant_all(self) -> None:
        """Let the peer send as much as at first, on all streams together."""
        if self._receive_window < 0:
            raise Http2Error(errors.FLOW_CONTROL_ERROR, "the peer exceeds the connection's window")
        grown = self._limits.connection_window_bytes - self._receive_window
        self._receive_window += grown
        self.sender.control(frames.window_update(0, grown))

    def _grant(self, stream: Stream) -> None:
        """Let the peer send as much as at first on this stream, unless it is paused."""
        if stream.receive_window < 0:
            raise Http2Error(errors.FLOW_CONTROL_ERROR, f"the peer exceeds the window of stream {stream.id}")
        grown = self._limits.call_window_bytes - stream.receive_window
        if grown and not stream.is_paused and not stream.is_received:
            stream.receive_window += grown
            self.sender.control(frames.window_update(stream.id, grown))

    # -- receiving frames that carry no messages

    def _control(
        self, kind: int, number: int, flags: int, payload: bytes, owner: Owner, now_s: float
    ) -> None:
        self._spend(len(payload), now_s)
        if kind == frames.CONTINUATION:
            self._block(number, self._blocks.go_on(number, flags, payload), owner, now_s)
        elif self._blocks.stream_id:
            raise Http2Error(errors.PROTOCOL_ERROR, f"a frame of kind {kind} within a header block")
        elif kind == frames.SETTINGS:
            self._settings(number, flags, payload)
        elif not self.peer.is_greeted:
            raise Http2Error(errors.PROTOCOL_ERROR, f"the first frame is of kind {kind}, not SETTINGS")
        elif kind == frames.WINDOW_UPDATE:
            self._window_update(number, payload)
        elif kind == frames.RST_STREAM:
            self._reset(number, payload, now_s)
        elif kind == frames.PING:
            self._ping(number, flags, payload, owner)
        elif kind == frames.GOAWAY:
            self._goaway(number, payload, owner)
        elif kind == frames.PUSH_PROMISE:
            raise Http2Error(errors.PROTOCOL_ERROR, "a push, which was not allowed")
        elif kind == frames.PRIORITY and len(payload) != 5:
            raise Http2Error(errors.FRAME_SIZE_ERROR, f"PRIORITY of {len(payload)} bytes")

    def _settings(self, number: int, flags: int, payload: bytes) -> None:
        window = self.peer.settings(number, flags, payload)
        if not flags & frames.ACK:
            self.sender.control(frames.SETTINGS_ACK)
        if window is not None:
            self._resize_windows(window)

    def _resize_windows(self, value: int) -> None:
        """Change the window of all streams by as much as that of new ones (RFC 9113, 6.9.2)."""
        grown = value - self.sender.initial_window
        self.sender.initial_window = value
        if grown:
            for stream in self.streams.values():
                self._widen(stream, grown)

    def _widen(self, stream: Stream, by: int) -> None:
        stream.send_window += by
        if stream.send_window > frames.MAX_WINDOW:
            raise Http2Error(
                errors.FLOW_CONTROL_ERROR, f"the window of stream {stream.id} exceeds {frames.MAX_WINDOW}"
            )

    def _window_update(self, number: int, payload: bytes) -> None:
        grown = _number(payload, frames.WINDOW_UPDATE) & frames.MAX_WINDOW
        if grown == 0:
            raise Http2Error(errors.PROTOCOL_ERROR, "WINDOW_UPDATE by 0")
        if number == 0:
            self.sender.window += grown
            if self.sender.window > frames.MAX_WINDOW:
                raise Http2Error(
                    errors.FLOW_CONTROL_ERROR, f"the connection's window exceeds {frames.MAX_WINDOW}"
                )
        elif (stream := self.streams.get(number)) is not None:
            self._widen(stream, grown)
        else:
            self._check_begun(number)

    def _reset(self, number: int, payload: bytes, now_s: float) -> None:
        code = _number(payload, frames.RST_STREAM)
        stream = self.streams.get(number)
        if stream is None:
            self._check_begun(number)
            return
        if not stream.was_answered and not self._is_client and not self._allowances.abandoned_call(now_s):
            raise Http2Error(errors.ENHANCE_YOUR_CALM, "the client cancels too many calls")
        user, stream.user = stream.user, None
        self._forget(stream)
        if user is not None:
            user.lose(code, "the peer cancelled the call", code == errors.REFUSED_STREAM)

    def _check_begun(self, number: int) -> None:
        if number % 2 == 0 or number > self.last_stream_id:
            raise Http2Error(errors.PROTOCOL_ERROR, f"a frame of stream {number}, which nobody began")

    def _ping(self, number: int, flags: int, payload: bytes, owner: Owner) -> None:
        if number or len(payload) != 8:
            raise Http2Error(errors.FRAME_SIZE_ERROR, "PING with a wrong length or stream")
        if flags & frames.ACK:
            owner.acknowledged(payload)
        else:
            self.sender.control(frames.ping(payload, is_ack=True))

    def _goaway(self, number: int, payload: bytes, owner: Owner) -> None:
        if number or len(payload) < 8:
            raise Http2Error(errors.FRAME_SIZE_ERROR, "GOAWAY with a wrong length or stream")
        self.peer.is_leaving = True
        if self._is_client:
            last = int.from_bytes(payload[:4], "big") & _STREAM_MASK
            for stream in [each for each in self.streams.values() if each.id > last]:
                self.fail(stream, errors.REFUSED_STREAM, "the server is shutting down", is_unprocessed=True)
        owner.leaving()

    # -- sending, for calls

    def begin(self) -> Stream:
        """A new stream of a client, whose headers are to be sent next."""
        self.last_stream_id = number = self.last_stream_id + 2 if self.last_stream_id else 1
        self._allowances.call_began()
        return self._new_stream(number)

    def send(self, stream: Stream, message: bytes) -> bool:
        """Send a message. False, and the call has to end, if there is no space to queue it."""
        return self.sender.message(stream, message)

    def end(self, stream: Stream, frame: bytes) -> None:
        """End this side of a stream, behind its messages, with `frame`. A server takes no more of it."""
        if not self._is_client:
            stream.user = None
        if self.sender.end(stream, frame):
            self._sent(stream)

    def _sent(self, stream: Stream) -> None:
        """This side of a stream has ended."""
        stream.is_sent = True
        if not stream.is_received:
            if self._is_client:
                return
            self.sender.control(frames.reset(stream.id, errors.NO_ERROR))
        self._forget(stream)

    def cancel(self, stream: Stream, code: int) -> None:
        """End a stream at once, in both directions. Its user hears nothing more."""
        stream.user = None
        if self.streams.get(stream.id) is stream:
            self.sender.control(frames.reset(stream.id, code))
            self._forget(stream)

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
            self._grant(stream)

    def _forget(self, stream: Stream) -> None:
        stream.user = None
        if self.streams.pop(stream.id, None) is not None:
            stream.reader.drop()
            self._incomplete.pop(stream.id, None)
            self.sender.drop(stream)

    # -- sending, for the socket

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
        if not sender.out:
            return b""
        data = sender.take()
        self._allowances.sent(len(data))
        return data

    def goaway(self, code: int, debug: str = "") -> None:
        """Announce the end: no further calls are accepted."""
        self._accepted_until = self.last_stream_id
        last = 0 if self._is_client else self.last_stream_id
        self.sender.control(frames.goaway(last, code, debug.encode("utf-8", "replace")[:200]))

    def announce_goaway(self, ping: bytes) -> None:
        """Announce that the end comes as soon as the peer has answered the PING: calls that are in transit
        are still accepted (RFC 9113, 6.8)."""
        self.sender.control(frames.goaway(_ALL_STREAMS, errors.NO_ERROR) + frames.ping(ping))

    def sweep(self, now_s: float) -> None:
        """End calls that have been stalled or incomplete for too long; to be called every few seconds."""
        for stream in [*self._incomplete.values()]:
            reader = stream.reader
            if stream.is_paused or reader.since_s is None:
                reader.since_s = now_s
            elif now_s - reader.since_s > self._limits.incomplete_timeout_s and (user := stream.user):
                user.reject(CallError(status.DEADLINE_EXCEEDED, "a message was incomplete for too long"))
        for stream in [*self.sender.blocked.values()]:
            if stream.stalled_since_s is None:
                stream.stalled_since_s = now_s
            elif now_s - stream.stalled_since_s > self._limits.stall_timeout_s:
                self.fail(stream, errors.CANCEL, "the peer has not taken messages for too long")

    @property
    def has_partial(self) -> bool:
        """Whether a frame is incomplete."""
        return bool(self._partial)


def _number(payload: bytes, kind: int) -> int:
    if len(payload) != 4:
        raise Http2Error(errors.FRAME_SIZE_ERROR, f"a frame of kind {kind} with {len(payload)} bytes")
    return int.from_bytes(payload, "big")


def _unpadded(data: bytes, begin: int, end: int) -> tuple[int, int]:
    """Where the content of a padded payload begins and ends."""
    if begin == end or data[begin] >= end - begin:
        raise Http2Error(errors.PROTOCOL_ERROR, "DATA that is shorter than its padding")
    return begin + 1, end - data[begin]
