"""A connection that speaks HTTP/2 to an endpoint, and HTTP/1.1 to its user.

It carries one request at a time, like every connection of the gateway: an endpoint under load has as many
connections as requests. It is the transport of its user, and the protocol of its socket.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any, cast

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from headgate.dataplane.http2 import heads
from headgate.dataplane.http2.errors import Http2Error, NotTakenError
from headgate.dataplane.http2.frames import FrameFilter
from headgate.dataplane.http2.inbound import Inbound
from headgate.dataplane.http2.stream import Stream
from headgate.loop_turns import Turns

WINDOW_BYTES = 1 << 20
"""Flow control window of a response: also the most that is buffered while its client reads nothing."""
MAX_UNREAD_BYTES = 4 << 20
"""Written data that the endpoint has not read: one that requests acknowledgements without end is
disconnected."""
MAX_TABLE_BYTES = 4096
"""For header compression: an endpoint that allows more would otherwise get all of them."""
_MAX_SENT_BYTES = 1 << 16
"""In one frame, which the socket has to take as a whole: some endpoints accept 16 MB."""
_MAX_SENT_IN_TURN = 1 << 18
_MAX_WAITING_BYTES = 1 << 16
"""Of a body that is written as it comes: beyond this, its user has to wait for the endpoint."""
_OWN_SETTINGS = {
    SettingCodes.ENABLE_PUSH: 0,
    SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_BYTES,
    SettingCodes.MAX_HEADER_LIST_SIZE: 64 * 1024,
}
_CONFIGURATION = H2Configuration(client_side=True, header_encoding=None)


class _Connection(H2Connection):
    """Remembers few closed streams: h2 keeps 65,536 per connection, which are 7 MB."""

    MAX_CLOSED_STREAMS = 16

    def free(self) -> None:
        """End its use. It refers to itself: otherwise only a garbage collection would free it."""
        vars(self).clear()


class Translator(asyncio.Transport, asyncio.Protocol):
    """`user` is an HTTP/1.1 protocol that writes each request in one call, and one request after the
    other."""

    def __init__(self, user: asyncio.Protocol, uploads: Turns, downloads: Turns) -> None:
        super().__init__()
        self._user = user
        self._uploads = uploads
        self._downloads = downloads
        self._socket: asyncio.Transport | None = None
        self._origin = heads.Origin()
        self._http2: _Connection
        self._frames = FrameFilter(time.monotonic())
        self._inbound = Inbound()
        self._stream = Stream()
        self._may_write = True
        self._waits_for_turn = False
        """Whether more of the body is sent in the connection's next turn."""
        self._has_paused_user = False
        self._closing = False
        self._error: Http2Error | None = None

    @property
    def error(self) -> Http2Error | None:
        """Why it ended early."""
        return self._error

    # -- asyncio.Protocol, for the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        self._http2 = _Connection(_CONFIGURATION)
        tls = transport.get_extra_info("ssl_object")
        authority = _authority(transport.get_extra_info("peername"))
        self._origin = heads.Origin(b"http" if tls is None else b"https", authority)
        if tls is not None and tls.selected_alpn_protocol() != "h2":
            self._fail(Http2Error("the endpoint does not offer HTTP/2 (ALPN h2)"))
        if self._error is None:
            self._http2.local_settings = Settings(client=True, initial_values=_OWN_SETTINGS)
            self._http2.initiate_connection()
            self._http2.increment_flow_control_window(WINDOW_BYTES)
            self._flush()
        self._user.connection_made(self)

    def data_received(self, data: bytes) -> None:
        if self._inbound.unread:
            self._inbound.unread += data  # it was in transit when reading was paused
        else:
            self._read(data)

    def _read(self, data: bytes) -> None:
        """Process the frames for one iteration of the event loop; the rest waits for the next."""
        if self._error is not None:
            return
        passed: list[bytes] = []
        try:
            for event in self._http2.receive_data(self._frames.feed(data, time.monotonic())):
                self._take(event, passed)
            self._send_body()
            self._flush()
            self._check_what_is_unread()
            self._mind_goaway()
            if self._frames.rest:
                self._read_later(self._frames.rest)
        except Http2Error as error:
            self._fail(error)
        except ProtocolError as error:
            self._fail(Http2Error(f"the endpoint's response is not valid HTTP/2: {error}"))
        if self._frames.is_leaving and self._error is None and not self._stream.id:
            self.abort()  # over TLS, a close would wait for the endpoint
        # Last: when the response is complete, the user may write its next request immediately.
        if passed:
            self._user.data_received(b"".join(passed))

    def _read_later(self, data: bytes) -> None:
        self._inbound.keep(data, self._socket)
        self._downloads.wait(self._read_on)

    def _read_on(self) -> bool:
        inbound = self._inbound
        if data := inbound.take():
            self._read(data)
        if not inbound.unread:
            if inbound.lost is not None:
                self.connection_lost(*inbound.lost)
            else:
                inbound.read_on(self._socket)
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._socket = None
        if self._inbound.unread and not self._closing:
            self._inbound.lost = (error,)  # all data before the end still counts
            return
        self._inbound.drop()
        self._stream.drop_body()
        self._http2.free()
        self._user.connection_lost(self._error or error)

    def pause_writing(self) -> None:
        self._may_write = False

    def resume_writing(self) -> None:
        self._may_write = True
        self._send_body()

    # -- asyncio.Transport, for the user

    def write(self, data: Any) -> None:
        """Send a request: its head and its body. If that is shorter than its length, the rest follows in
        further calls."""
        if self._stream.to_come:
            self._send_more(data)
            return
        end = data.index(b"\r\n\r\n") + 4
        self._request(bytes(data[:end]), memoryview(data)[end:])

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Send a request with separate head and body; the body may be several buffers."""
        head, *body = list_of_data
        self._request(head, *body)

    def _send_more(self, data: Any) -> None:
        stream = self._stream
        if self._error is not None or not stream.id or not data:
            return
        stream.add(bytes(data))
        self._send_body()
        if stream.unsent_bytes() > _MAX_WAITING_BYTES and not self._has_paused_user:
            self._has_paused_user = True
            self._user.pause_writing()

    def _request(self, head: bytes, *body: Any) -> None:
        if self._error is not None:
            return
        if self._frames.is_leaving:
            # The user has the whole response to its last request, whose stream has not ended yet.
            self._fail(NotTakenError("the endpoint is shutting down, and accepts no request (GOAWAY)"))
            return
        headers, stream = heads.request(head[:-4], self._origin), self._stream
        length = next((int(value) for name, value in headers if name == b"content-length"), 0)
        stream.set_body(body, length)
        self._has_paused_user = False
        try:
            stream.id = self._http2.get_next_available_stream_id()
            self._http2.send_headers(stream.id, headers, end_stream=stream.is_sent)
            self._frames.request_sent()
            self._send_body()
            self._flush()
        except ProtocolError as error:
            self._fail(NotTakenError(f"the request cannot be sent over HTTP/2: {error}"))

    def pause_reading(self) -> None:
        self._inbound.pause(self._socket)

    def resume_reading(self) -> None:
        self._inbound.resume(self._socket)

    def is_closing(self) -> bool:
        return self._closing or self._socket is None or self._socket.is_closing()

    def close(self) -> None:
        self._closing = True
        if self._socket is not None:
            self._socket.close()

    def abort(self) -> None:
        self._closing = True
        self._inbound.drop()
        if self._socket is not None:
            self._socket.abort()

    def get_write_buffer_size(self) -> int:
        """Includes data held back by flow control."""
        unsent = self._stream.unsent_bytes()
        return unsent + (self._socket.get_write_buffer_size() if self._socket is not None else 0)

    # -- events of the endpoint

    def _take(self, event: events.Event, passed: list[bytes]) -> None:
        """Add the data for the user to `passed`.

        If a response has a length, the user may have sent the next request before the stream of this one
        ended.
        """
        if isinstance(event, events.RemoteSettingsChanged):
            encoder = self._http2.encoder
            if encoder.header_table_size > MAX_TABLE_BYTES:
                encoder.header_table_size = MAX_TABLE_BYTES
        if isinstance(event, events.DataReceived):
            self._http2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        stream = self._stream
        if stream.id == 0 or getattr(event, "stream_id", 0) != stream.id:
            return
        if isinstance(event, events.DataReceived):
            if event.data:
                passed += stream.framed(event.data)
        elif isinstance(event, events.ResponseReceived):
            passed.append(stream.head(event.headers))
        elif isinstance(event, events.InformationalResponseReceived):
            # The user bounds their number.
            passed.append(heads.response(event.headers)[0])
        elif isinstance(event, events.StreamEnded):
            if last := stream.end():
                passed.append(last)
        elif isinstance(event, events.StreamReset):
            refused = event.error_code == ErrorCodes.REFUSED_STREAM
            kind = NotTakenError if refused else Http2Error
            raise kind(f"the endpoint reset the request ({_name(event.error_code)})")

    def _mind_goaway(self) -> None:
        """After a GOAWAY, a request in progress finishes if it was accepted, and no other follows."""
        last = self._frames.last_stream_id
        if last is not None and self._stream.id > last:
            raise NotTakenError("the endpoint is shutting down, and did not accept the request (GOAWAY)")

    # -- sending

    def _send_body(self) -> None:
        """Send as much as the endpoint's windows and the socket take, up to a limit per iteration of the
        loop."""
        left, stream = _MAX_SENT_IN_TURN, self._stream
        while stream.unsent and stream.id and self._may_write:
            if left <= 0:
                self._send_later()
                return
            room = self._http2.local_flow_control_window(stream.id)
            size = min(room, self._http2.max_outbound_frame_size, _MAX_SENT_BYTES, len(stream.unsent))
            if size <= 0:
                return
            sent = stream.take(size)
            self._http2.send_data(stream.id, sent, end_stream=stream.is_sent)
            self._frames.body_sent(size)
            self._flush()
            left -= size
        if self._has_paused_user and not stream.unsent:
            self._has_paused_user = False
            self._user.resume_writing()

    def _send_later(self) -> None:
        if not self._waits_for_turn:
            self._waits_for_turn = True
            self._uploads.wait(self._send_on)

    def _send_on(self) -> bool:
        self._waits_for_turn = False
        if self._error is None and not self.is_closing():
            self._send_body()
        return True

    def _flush(self) -> None:
        if self._socket is None:
            return
        if data := self._http2.data_to_send():
            self._socket.write(data)

    def _check_what_is_unread(self) -> None:
        """Bodies never reach this limit, as they wait for the socket."""
        if self._socket is not None and self._socket.get_write_buffer_size() > MAX_UNREAD_BYTES:
            raise Http2Error("the endpoint does not read the data that it requests")

    def _fail(self, error: Http2Error) -> None:
        """End the connection; the user learns of it by its loss. The traceback of the error refers to this
        object, and would form a reference cycle."""
        self._error = error.with_traceback(None)
        self.abort()


def _authority(address: Any) -> bytes:
    if not isinstance(address, tuple):
        return b"localhost"
    host, port = address[:2]
    return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode("latin-1")


def _name(code: int | ErrorCodes) -> str:
    return code.name if isinstance(code, ErrorCodes) else f"error {code}"
