"""Answers requests that came without TLS: redirects them to HTTPS, or says that TLS is needed; and closes."""

from __future__ import annotations

import asyncio
from typing import Final, cast

from headgate.gateway import refusals, unreadable
from headgate.gateway.gateway_api import head as heads
from headgate.requests.refusal import Refusal

MAX_HEAD_BYTES: Final = 16 * 1024
MAX_CONNECTIONS: Final = 128
"""At a time; the oldest gives way."""
PATIENCE_S: Final = 5.0
"""For a client to send its request, and to read the response."""
_HTTPS_PORT: Final = 443


TLS_NEEDED: Final = Refusal.bad_request(
    "the request came without TLS, and this port speaks TLS only: use https:// instead of http://",
    code="tls_required",
)


class Insecure:
    """Connections without TLS."""

    def __init__(self, loop: asyncio.AbstractEventLoop, port: int | None = None) -> None:
        """`port`: that of HTTPS, to which requests are redirected; None for an error."""
        self.loop = loop
        self._port = port
        self._open: dict[_Connection, None] = {}

    def protocol(self) -> asyncio.Protocol:
        return _Connection(self)

    def began(self, connection: _Connection) -> None:
        if len(self._open) >= MAX_CONNECTIONS:
            next(iter(self._open)).abort()
        self._open[connection] = None

    def ended(self, connection: _Connection) -> None:
        self._open.pop(connection, None)

    def answer(self, text: bytes) -> bytes:
        """The response to the request with this head."""
        found = heads.read(text, heads.Limits(MAX_HEAD_BYTES, 100))
        if isinstance(found, Refusal):
            return refusals.refused(found, b"", keep_alive=False)
        if self._port is None:
            return refusals.refused(TLS_NEEDED, b"", keep_alive=False)
        host = found.host
        if not host:
            return refusals.refused(
                unreadable.invalid("without a host, there is nowhere to redirect to"), b"", keep_alive=False
            )
        name = host[: host.rindex(b":")] if host.rfind(b":") > host.rfind(b"]") else host
        port = b"" if self._port == _HTTPS_PORT else b":%d" % self._port
        target = found.target if found.target.startswith(b"/") else b"/"
        # 308 keeps the method, but the body of a POST was sent in the clear already: clients must notice.
        return refusals.response(
            308, b"", headers=((b"location", b"https://%b%b%b" % (name, port, target)),), keep_alive=False
        )

    def close(self) -> None:
        for connection in list(self._open):
            connection.abort()


class _Connection(asyncio.Protocol):
    def __init__(self, owner: Insecure) -> None:
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._data = b""
        self._is_answered = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._timer = self._owner.loop.call_later(PATIENCE_S, self.abort)
        self._owner.began(self)

    def data_received(self, data: bytes) -> None:
        if self._is_answered or self._transport is None:
            return
        self._data += data
        end = self._data.find(b"\r\n\r\n")
        if end < 0 and len(self._data) <= MAX_HEAD_BYTES:
            return
        self._is_answered = True
        if not 0 <= end <= MAX_HEAD_BYTES:
            refusal = unreadable.too_large("head", MAX_HEAD_BYTES, 431)
            answer = refusals.refused(refusal, b"", keep_alive=False)
        else:
            answer = self._owner.answer(self._data[: end + 4])
        self._transport.write(answer)
        self._transport.write_eof()  # and not more: with a body unread, a close might reset the connection

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._owner.ended(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def abort(self) -> None:
        self._owner.ended(self)
        if self._transport is not None:
            self._transport.abort()
