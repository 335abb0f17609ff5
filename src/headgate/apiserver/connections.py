"""Connections with limits: how many, how large a head may be, how long a request may take to arrive.

uvicorn bounds none of these for its httptools protocol. The size of a body is bounded where it is read
(`handlers.bodies`). A client that does not take what is sent to it is let go by the kernel.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from dataclasses import dataclass, replace

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headgate.apiserver import errors


@dataclass(frozen=True)
class Limits:
    """Of connections; what is beyond them is answered by a Status and closed."""

    connections: int = 3000
    head_bytes: int = 64 * 1024
    """Of a request line with its query and all headers together."""
    request_s: float = 60.0
    """From a request's first byte (or the connection's beginning) to the last byte of its body."""
    stalled_s: float = 60.0
    """How long a client may take nothing of what is sent to it."""

    def affordable(self) -> Limits:
        """These limits, with as many connections as the process may have files open besides its own."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return replace(self, connections=max(1, min(self.connections, soft - _OWN_FILES)))


_OWN_FILES = 64


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol within limits, which a subclass made by `within` sets."""

    limits = Limits()
    _arriving: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _in_head = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            self._refuse(errors.too_many_requests("Too many requests, please try again later."))
        else:
            self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > self.limits.head_bytes:
            what = f"the request line and the headers have more than {self.limits.head_bytes} bytes"
            self._refuse(errors.StatusError(431, "RequestHeaderFieldsTooLarge", what))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._arriving is None:
            self._expect_request()

    def on_headers_complete(self) -> None:
        self._in_head, self._head_bytes = False, 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._arrived()
        self._in_head = True
        super().on_message_complete()

    def _expect_request(self) -> None:
        self._arriving = self.loop.call_later(self.limits.request_s, self._too_slow)

    def _arrived(self) -> None:
        if self._arriving is not None:
            self._arriving.cancel()
            self._arriving = None

    def _too_slow(self) -> None:
        told = f"the request did not arrive within {self.limits.request_s:g} seconds"
        self._refuse(errors.StatusError(408, "Timeout", told))

    def _refuse(self, error: errors.StatusError) -> None:
        """Answers, if nothing of another answer was sent, and closes without waiting for the peer."""
        self._arrived()
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            body = msgspec.json.encode(error.to_dict())
            retry = f"retry-after: {error.retry_after_s}\r\n" if error.retry_after_s else ""
            head = (
                f"HTTP/1.1 {error.code} {error.reason}\r\ncontent-type: application/json\r\n{retry}"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        self.transport.close()


def within(limits: Limits) -> type[asyncio.Protocol]:
    """The protocol class for these limits."""
    return type("BoundedProtocol", (BoundedProtocol,), {"limits": limits})


def let_go_of_the_stalled(listener: socket.socket, limits: Limits) -> None:
    """Ends each accepted connection whose peer takes nothing of what was sent to it for `stalled_s`.

    Where the system cannot (only Linux can), such a connection stays until its watch times out; what it holds
    in memory is bounded all the same.
    """
    if option := getattr(socket, "TCP_USER_TIMEOUT", None):
        listener.setsockopt(socket.IPPROTO_TCP, option, int(limits.stalled_s * 1000))
