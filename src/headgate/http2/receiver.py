"""Takes the bytes of an HTTP/2 connection apart and tells its streams what arrived: both sides, no socket.

All that a peer sends is bounded: the size of frames, the number of those without content, streams in
progress, and bytes held for them.
"""

from __future__ import annotations

from time import perf_counter
from typing import Final, Protocol

from headgate.http2 import errors, frames
from headgate.http2.errors import Http2Error
from headgate.http2.header_blocks import HeaderBlocks
from headgate.http2.hpack import Headers
from headgate.http2.stream import Stream
from headgate.http2.streams import Http2

_STREAM_MASK: Final = 0x7FFFFFFF
STREAM_BYTES: Final = 8
"""A setting that changes the windows of all streams costs as much as a frame with so many bytes for each."""


class Owner(Protocol):
    """Who hears of what concerns the connection, and not a known stream."""

    def opened(self, stream: Stream, headers: Headers) -> None:
        """The peer has begun a stream; the owner may set its user."""

    def acknowledged(self, data: bytes) -> None:
        """The peer has answered a PING."""

    def leaving(self) -> None:
        """The peer has announced that it accepts no further streams (GOAWAY)."""


class Receiver:
    """The receiving side of one connection."""

    __slots__ = ("_blocks", "_http2", "_limits", "_partial", "_window")

    def __init__(self, http2: Http2) -> None:
        self._http2 = http2
        self._limits = http2.limits
        self._blocks = HeaderBlocks(http2.limits.max_header_bytes)
        self._partial = b""
        """The beginning of an incomplete frame."""
        self._window = http2.limits.connection_window_bytes
        """What the peer may still send, on all streams together."""

    @property
    def has_partial(self) -> bool:
        """Whether a frame is incomplete."""
        return bool(self._partial)

    def receive(self, data: bytes, owner: Owner, now_s: float, until_s: float) -> bytes:
        """Process frames, until `perf_counter` has reached `until_s`. Returns the rest, to be received again.

        Raises Http2Error.
        """
        if self._partial:
            data, self._partial = self._partial + data, b""
        at, size = 0, len(data)
        if not self._http2.peer.has_preface:
            if not self._takes_preface(data):
                return b""
            at = len(frames.PREFACE)
        unpack, blocks = frames.HEAD.unpack_from, self._blocks
        is_plain = self._http2.peer.is_greeted and not blocks.stream_id
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
                is_plain = self._http2.peer.is_greeted and not blocks.stream_id
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
        self._http2.peer.has_preface = True
        return True

    def _data(self, number: int, flags: int, data: bytes, begin: int, end: int, now_s: float) -> None:
        size = end - begin
        if size == 0 and not flags & frames.END_STREAM:
            self._spend(0, now_s)
        self._window -= size
        if self._window < self._limits.connection_window_bytes >> 1:
            self._grant_all()
        stream = self._http2.streams.get(number)
        if stream is None:
            self._on_closed_stream(number, size, now_s)
            return
        if stream.is_received:
            raise Http2Error(errors.STREAM_CLOSED, f"DATA behind the end of stream {number}")
        stream.receive_window -= size
        if stream.receive_window < self._limits.call_window_bytes >> 1:
            self._http2.grant(stream)
        if flags & frames.PADDED:
            begin, end = _unpadded(data, begin, end)
            if begin == end:
                self._spend(0, now_s)
        if begin < end and (user := stream.user) is not None:
            user.receive(data, begin, end)
        if flags & frames.END_STREAM:
            self._received(stream, ())

    def _received(self, stream: Stream, headers: Headers) -> None:
        """The peer has ended its side of a stream."""
        stream.is_received = True
        if (user := stream.user) is not None:
            user.receive_end(headers)
        if stream.is_sent:
            self._http2.forget(stream)

    def _block(self, number: int, block: tuple[Headers, bool] | None, owner: Owner, now_s: float) -> None:
        """Headers are complete, unless `block` is None."""
        if block is None:
            self._spend(0, now_s)
            return
        headers, is_last = block
        stream = self._http2.streams.get(number)
        if stream is None:
            if self._http2.is_client or number <= self._http2.last_stream_id:
                self._on_closed_stream(number, 0, now_s)
                return
            stream = self._opened(number, now_s)
            if stream is not None:
                stream.is_received = is_last
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
        self._http2.last_stream_id = number
        if number > self._http2.accepted_until or self._http2.is_full:
            self._spend(0, now_s)
            self._http2.sender.control(frames.reset(number, errors.REFUSED_STREAM))
            return None
        self._http2.allowances.calls += 1
        return self._http2.new_stream(number)

    def _on_closed_stream(self, number: int, size: int, now_s: float) -> None:
        """A frame arrived for a stream that has ended here: it may have been in transit."""
        is_known = number % 2 == 1 and number <= self._http2.last_stream_id
        if not is_known:
            raise Http2Error(errors.PROTOCOL_ERROR, f"a frame of stream {number}, which nobody began")
        if size < frames.MAX_FRAME_BYTES >> 6:
            self._spend(size, now_s)

    def _spend(self, size: int, now_s: float) -> None:
        http2 = self._http2
        if not http2.allowances.frame(size, http2.sender.sent_bytes, now_s):
            raise Http2Error(errors.ENHANCE_YOUR_CALM, "the peer sends too many frames that carry no data")

    def _grant_all(self) -> None:
        """Let the peer send as much as at first, on all streams together."""
        if self._window < 0:
            raise Http2Error(errors.FLOW_CONTROL_ERROR, "the peer exceeds the connection's window")
        grown = self._limits.connection_window_bytes - self._window
        self._window += grown
        self._http2.sender.control(frames.window_update(0, grown))

    # -- frames that carry no data

    def _control(
        self, kind: int, number: int, flags: int, payload: bytes, owner: Owner, now_s: float
    ) -> None:
        self._spend(len(payload), now_s)
        if kind == frames.CONTINUATION:
            self._block(number, self._blocks.go_on(number, flags, payload), owner, now_s)
        elif self._blocks.stream_id:
            raise Http2Error(errors.PROTOCOL_ERROR, f"a frame of kind {kind} within a header block")
        elif kind == frames.SETTINGS:
            self._settings(number, flags, payload, now_s)
        elif not self._http2.peer.is_greeted:
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

    def _settings(self, number: int, flags: int, payload: bytes, now_s: float) -> None:
        window = self._http2.peer.settings(number, flags, payload)
        if not flags & frames.ACK:
            self._http2.sender.control(frames.SETTINGS_ACK)
        if window is not None:
            self._resize_windows(window, now_s)

    def _resize_windows(self, value: int, now_s: float) -> None:
        """Change the window of all streams by as much as that of new ones (RFC 9113, 6.9.2)."""
        grown = value - self._http2.sender.initial_window
        self._http2.sender.initial_window = value
        streams = self._http2.streams
        if grown and streams:
            self._spend(len(streams) * STREAM_BYTES, now_s)
            for stream in streams.values():
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
            self._http2.sender.window += grown
            if self._http2.sender.window > frames.MAX_WINDOW:
                raise Http2Error(
                    errors.FLOW_CONTROL_ERROR, f"the connection's window exceeds {frames.MAX_WINDOW}"
                )
        elif (stream := self._http2.streams.get(number)) is not None:
            self._widen(stream, grown)
        else:
            self._check_begun(number)

    def _reset(self, number: int, payload: bytes, now_s: float) -> None:
        code = _number(payload, frames.RST_STREAM)
        stream = self._http2.streams.get(number)
        if stream is None:
            self._check_begun(number)
            return
        if (
            not stream.was_answered
            and not self._http2.is_client
            and not self._http2.allowances.abandoned_call(now_s)
        ):
            raise Http2Error(errors.ENHANCE_YOUR_CALM, "the client cancels too many requests")
        user, stream.user = stream.user, None
        self._http2.forget(stream)
        if user is not None:
            user.lose(code, "the peer cancelled the stream", code == errors.REFUSED_STREAM)

    def _check_begun(self, number: int) -> None:
        if number % 2 == 0 or number > self._http2.last_stream_id:
            raise Http2Error(errors.PROTOCOL_ERROR, f"a frame of stream {number}, which nobody began")

    def _ping(self, number: int, flags: int, payload: bytes, owner: Owner) -> None:
        if number or len(payload) != 8:
            raise Http2Error(errors.FRAME_SIZE_ERROR, "PING with a wrong length or stream")
        if flags & frames.ACK:
            owner.acknowledged(payload)
        else:
            self._http2.sender.control(frames.ping(payload, is_ack=True))

    def _goaway(self, number: int, payload: bytes, owner: Owner) -> None:
        if number or len(payload) < 8:
            raise Http2Error(errors.FRAME_SIZE_ERROR, "GOAWAY with a wrong length or stream")
        self._http2.peer.is_leaving = True
        if self._http2.is_client:
            last = int.from_bytes(payload[:4], "big") & _STREAM_MASK
            for stream in [each for each in self._http2.streams.values() if each.id > last]:
                self._http2.fail(
                    stream, errors.REFUSED_STREAM, "the server is shutting down", is_unprocessed=True
                )
        owner.leaving()


def _number(payload: bytes, kind: int) -> int:
    if len(payload) != 4:
        raise Http2Error(errors.FRAME_SIZE_ERROR, f"a frame of kind {kind} with {len(payload)} bytes")
    return int.from_bytes(payload, "big")


def _unpadded(data: bytes, begin: int, end: int) -> tuple[int, int]:
    """Where the content of a padded payload begins and ends."""
    if begin == end or data[begin] >= end - begin:
        raise Http2Error(errors.PROTOCOL_ERROR, "DATA that is shorter than its padding")
    return begin + 1, end - data[begin]
