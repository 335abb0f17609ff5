"""A client's connection: bytes in, complete requests to exchanges, answers out.

Requests of one connection are served one after the other; those that a client sends ahead wait here,
a bounded number of them. Limits on sizes, counts and times are all kept in this file.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import httptools

from headgate.gateway import limits, local, refusals
from headgate.gateway.exchange import Exchange
from headgate.gateway.refusals import Refusal
from headgate.gateway.request import Header, Request

if TYPE_CHECKING:
    from headgate.gateway.proxy import Proxy

log = logging.getLogger(__name__)

LINGER_S = 2.0
"""How long a rejected client may go on sending, unheard: cut off at once, it might not read why."""

READ_AHEAD_BYTES = 64 * 1024
"""Past this much in requests that wait behind a running one, no more are read."""

MAX_BODY_PIECES = 1024
"""Further pieces of a body are put together: a body in tiny chunks would take many times its size."""

_RESET = struct.pack("ii", 1, 0)
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_FRAMING = frozenset({b"content-length", b"transfer-encoding", b"expect"})
"""Headers by which a client says how its body comes."""
_VERSIONS = ("1.1", "1.0")
_UPGRADING = frozenset({b"connection", b"upgrade", b"http2-settings"})


class ClientConnection(asyncio.Protocol):
    """One client connection, from accept to close."""

    __slots__ = (
        "_address",
        "_begun_at",
        "_body",
        "_body_bytes",
        "_exchange",
        "_fed_bytes",
        "_headers",
        "_in_head",
        "_parser",
        "_proxy",
        "_rejected",
        "_settings",
        "_target",
        "_transport",
        "_unused_bytes",
        "_waiting",
        "is_paused",
    )

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._settings = proxy.settings
        self._transport: asyncio.Transport | None = None
        self._address = ""
        """What the client counts under, where addresses are counted."""
        self._parser = httptools.HttpRequestParser(self)
        self._exchange: Exchange | None = None
        self._waiting: deque[Request] = deque()
        self._rejected: Refusal | None = None
        self._target = b""
        self._headers: list[Header] = []
        self._body: list[bytes | bytearray] = []
        self._body_bytes = 0
        self._fed_bytes = 0
        """Length of the data being parsed."""
        self._unused_bytes = 0
        """Bytes that came since the head began, or since the body last grew: so the extensions of chunks
        and the trailers are bounded too."""
        self._in_head = True
        self._begun_at = proxy.now()
        """When the request being read began, or when the connection fell idle."""
        self.is_paused = False
        """Whether the client reads too slowly for more to be written."""

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self._settings.write_buffer_bytes)
        if self._proxy.client_count.counts_addresses:
            self._address = limits.counted_as(self.address)
        refusal = self._proxy.client_count.admit(self._address)
        if refusal is None:
            self._proxy.clients.add(self)
        else:
            self._turn_away(refusal)

    def _turn_away(self, refusal: Refusal) -> None:
        """Says why, and closes. What the client sends is not read, but a few are listened to for a while:
        where it is sending already, a close at once is a reset, which might overtake the answer."""
        may_linger = self._proxy.turned_away(self)
        self._rejected = refusal
        self._answer_rejection(refusal)
        if not may_linger and self._transport is not None:
            self._transport.close()

    @property
    def address(self) -> str:
        """Of the client, without its port; "" if it is gone."""
        peer = self._transport.get_extra_info("peername") if self._transport is not None else None
        return str(peer[0]) if isinstance(peer, tuple) else ""

    @property
    def exchange(self) -> Exchange | None:
        """The request that is being served."""
        return self._exchange

    @property
    def waiting(self) -> int:
        """Requests that the client sent ahead."""
        return len(self._waiting)

    @property
    def reading_since(self) -> float | None:
        """Since when a request has been arriving; None if none is."""
        return self._begun_at if self._exchange is None and self._is_reading_request else None

    def data_received(self, data: bytes) -> None:
        if self._rejected is not None:
            return
        self._fed_bytes = len(data)
        self._unused_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
            self._answer_rejection_if_idle()
            return
        except httptools.HttpParserError as error:
            self._reject_invalid(error)
            self._answer_rejection_if_idle()
            return
        if self._unused_bytes > self._settings.max_head_bytes:
            part = "head" if self._in_head else "trailer"
            self._reject(_too_large(part, self._settings.max_head_bytes, 431))
            self._answer_rejection_if_idle()

    def eof_received(self) -> None:
        """A client that stops sending is taken to be gone, as other proxies do; what is written leaves."""
        if self._exchange is not None and self._transport is not None:
            self._transport.abort()
        self._gone()

    def connection_lost(self, error: Exception | None) -> None:
        self._proxy.client_left(self, self._address)
        self._gone()
        self._transport = None

    def pause_writing(self) -> None:
        self.is_paused = True
        if self._exchange is not None:
            self._exchange.pause()

    def resume_writing(self) -> None:
        self.is_paused = False
        if self._exchange is not None:
            self._exchange.resume()
        elif self._waiting:
            self._proxy.loop.call_soon(self._serve_next)

    def _gone(self) -> None:
        self._waiting.clear()
        exchange, self._exchange = self._exchange, None
        if exchange is not None and not exchange.settled:
            exchange.client_gone()

    # -- llhttp callbacks

    def on_message_begin(self) -> None:
        self._target = b""
        self._headers = []
        self._body = []
        self._body_bytes = 0
        # Behind another message, nobody knows yet how much of the data is this one's.
        self._unused_bytes = self._unused_bytes or 1
        self._in_head = True
        if self._exchange is None:
            self._begun_at = self._proxy.now()

    def on_url(self, target: bytes) -> None:
        self._target += target

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer: merged into the headers, it would pass by what was checked in them
        headers = self._headers
        headers.append((name.lower(), value))
        if len(headers) > self._settings.max_headers:
            self._reject(_too_many_headers(self._settings.max_headers))
            raise httptools.HttpParserError("too many headers")

    def on_headers_complete(self) -> None:
        if self._unused_bytes + self._fed_bytes > self._settings.max_head_bytes:
            self._check_head_size()
        self._in_head = False
        self._unused_bytes = 0
        expects = False
        for name, value in self._headers:
            if name in _FRAMING:
                if name == b"content-length":
                    if int(value) > self._settings.max_body_bytes:
                        self._body_too_large()
                elif name == b"expect":
                    expects = value.lower() == b"100-continue"
                elif value.lower() != b"chunked":
                    self._reject(_unknown_coding(value))
                    raise httptools.HttpParserError("unknown transfer coding")
        # Amid the answer to an earlier request, an interim response would be taken for a part of it.
        is_next = self._exchange is None and not self._waiting
        if expects and is_next and self._parser.get_http_version() == "1.1":
            self.write(_CONTINUE)

    def on_body(self, body: bytes) -> None:
        pieces = self._body
        if len(pieces) < MAX_BODY_PIECES:
            pieces.append(body)
        else:
            if len(pieces) == MAX_BODY_PIECES:
                pieces.append(bytearray())
            pieces[-1] += body
        self._body_bytes += len(body)
        self._unused_bytes = 0
        if self._body_bytes > self._settings.max_body_bytes:
            self._body_too_large()

    def on_message_complete(self) -> None:
        self._in_head = True
        self._unused_bytes = 0
        if self._parser.should_upgrade():
            return  # llhttp reads no body where an upgrade is asked for; it says so next
        body = self._body
        version = self._parser.get_http_version()
        if version not in _VERSIONS:
            self._reject(_unknown_version(version))
            raise httptools.HttpParserError("unknown version")
        request = Request(
            self._parser.get_method(),
            self._target,
            self._headers,
            bytes(body[0]) if len(body) == 1 else b"".join(body),
            version == "1.1" and self._parser.should_keep_alive(),
            version == "1.0",
            self._proxy.now(),
        )
        self._body = []
        if self._exchange is None and not self._waiting and not self.is_paused:
            self._serve(request)
        else:
            self._wait(request)

    # -- limits

    def _check_head_size(self) -> None:
        """Counts exactly, where the bytes that came are enough for the head to be too long."""
        size = len(self._target) + sum(len(name) + len(value) for name, value in self._headers)
        if size > self._settings.max_head_bytes:
            self._reject(_too_large("head", self._settings.max_head_bytes, 431))
            raise httptools.HttpParserError("head too large")

    def _body_too_large(self) -> None:
        self._reject(_too_large("body", self._settings.max_body_bytes, 413))
        raise httptools.HttpParserError("body too large")

    def _reject_invalid(self, error: httptools.HttpParserError) -> None:
        if self._rejected is None:
            self._reject(Refusal.bad_request(f"the request is not valid HTTP: {error}", code="invalid_http"))

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Reads a request that offers another protocol as one that does not (RFC 9110, 7.8).

        Java's own client offers h2c with every first request. llhttp stops after such a head, so the head
        is told to a fresh parser without the offer, and then the `rest`, which begins with the body.
        """
        while self._rejected is None:
            method = self._parser.get_method()
            if method == b"CONNECT":
                self._reject(Refusal.bad_request("CONNECT is not served", code="connect", status=405))
                return
            version = self._parser.get_http_version().encode()
            head = [b"%b %b HTTP/%b\r\n" % (method, self._target, version)]
            head += [b"%b: %b\r\n" % header for header in self._headers if header[0] not in _UPGRADING]
            if not self._parser.should_keep_alive():
                head.append(b"connection: close\r\n")
            data = b"".join((*head, b"\r\n", rest))
            self._parser = httptools.HttpRequestParser(self)
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                rest = data[upgrade.args[0] :]
                continue
            except httptools.HttpParserError as error:
                self._reject_invalid(error)
            return

    # -- serving

    def _wait(self, request: Request) -> None:
        """Keeps a request that the client sent ahead.

        Reading goes on as long as there is room: while it pauses, a client that leaves is not noticed.
        """
        if len(self._waiting) >= self._settings.max_pipelined:
            limit = self._settings.max_pipelined
            self._reject(
                Refusal.bad_request(f"more than {limit} requests sent ahead", code="pipeline_too_long")
            )
            raise httptools.HttpParserError("too many pipelined requests")
        self._waiting.append(request)
        ahead_bytes = sum(len(request.body) for request in self._waiting)
        is_full = len(self._waiting) == self._settings.max_pipelined or ahead_bytes > READ_AHEAD_BYTES
        if is_full and self._transport is not None:
            self._transport.pause_reading()

    def _serve(self, request: Request) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        try:
            if request.method == b"POST":
                self._exchange = exchange = Exchange(self._proxy, self, request)
                exchange.start()
            else:
                self.write(local.answer(self._proxy, request))
                self.exchange_done(request.keep_alive)
        except Exception:
            # llhttp would take it for a fault of the client, and the exchange would stay open for ever.
            log.exception("a request could not be handled")
            self.abort()

    def exchange_done(self, keep_alive: bool) -> None:
        """The answer is written: go on with the next request, or close."""
        self._exchange = None
        if self._transport is None or self._transport.is_closing():
            return
        self._begun_at = self._proxy.now()
        if not keep_alive or self._proxy.draining:
            self._transport.close()
        elif self._waiting:
            # From the loop, not from here: a client that sends many requests ahead must not deepen the stack.
            if not self.is_paused:
                self._proxy.loop.call_soon(self._serve_next)
        elif self._rejected is not None:
            self._answer_rejection_if_idle()

    def _serve_next(self) -> None:
        if self._exchange is not None or not self._waiting or self._transport is None:
            return
        request = self._waiting.popleft()
        if not self._waiting and self._rejected is None:
            self._transport.resume_reading()
        self._serve(request)

    # -- writing

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def writer(self) -> Callable[[bytes], None] | None:
        """Writes to the client for as long as an exchange runs, without asking whether it is still there."""
        return self._transport.write if self._transport is not None else None

    def refuse(self, refusal: Refusal, request: Request, request_id: bytes) -> None:
        self.write(
            refusals.refused(refusal, request.target, request_id=request_id, keep_alive=request.keep_alive)
        )

    def abort(self) -> None:
        """Ends the connection at once; amid an answer by a reset, since an answer without a length would
        otherwise look complete."""
        if self._transport is not None:
            if self._exchange is not None:
                sock = self._transport.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._transport.abort()
        self._gone()

    def _reject(self, refusal: Refusal) -> None:
        """The bytes cannot be served: answered when the requests before them are, then closed."""
        if self._rejected is None:
            self._rejected = refusal

    def _answer_rejection_if_idle(self) -> None:
        if self._rejected is not None and self._exchange is None and not self._waiting:
            self._answer_rejection(self._rejected)

    def _answer_rejection(self, refusal: Refusal) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._proxy.recorder.rejected(refusal)
        self.write(refusals.refused(refusal, self._target, keep_alive=False))
        self._transport.write_eof()
        self._transport.resume_reading()
        self._begun_at = self._proxy.now()

    # -- time

    def sweep(self, now: float) -> None:
        """Ends what has taken too long; called about once a second."""
        settings = self._settings
        age_s = now - self._begun_at
        if self._transport is None:
            return
        if self._exchange is not None:
            self._exchange.sweep(now)
        elif self._rejected is not None:
            if age_s > LINGER_S:
                self._transport.abort()
        elif self._is_reading_request:
            if age_s > settings.head_timeout_s:
                self._reject(_too_slow(settings.head_timeout_s))
                self._answer_rejection_if_idle()
        elif self._transport.is_closing() or self._waiting:
            if age_s > settings.keep_alive_s:
                self._transport.abort()  # it does not read what was written for it
        elif age_s > settings.keep_alive_s or self._proxy.draining:
            self._transport.close()

    @property
    def _is_reading_request(self) -> bool:
        return self._unused_bytes > 0 or not self._in_head

    def close_if_idle(self) -> None:
        idle = self._exchange is None and not self._waiting and not self._is_reading_request
        if idle and self._transport is not None:
            self._transport.close()


def _too_large(part: str, limit: int, status: int) -> Refusal:
    return Refusal.bad_request(
        f"the request {part} is longer than {limit} bytes", code=f"{part}_too_large", status=status
    )


def _too_many_headers(limit: int) -> Refusal:
    return Refusal.bad_request(
        f"the request has more than {limit} headers", code="head_too_large", status=431
    )


def _unknown_coding(value: bytes) -> Refusal:
    return Refusal.bad_request(
        f"transfer-encoding {value.decode('latin-1')!r} is not supported: only chunked is",
        code="unknown_transfer_coding",
        status=501,
    )


def _unknown_version(version: str) -> Refusal:
    return Refusal.bad_request(f"HTTP/{version} is not spoken here", code="unknown_version", status=505)


def _too_slow(limit_s: float) -> Refusal:
    return Refusal.bad_request(
        f"the request was not complete after {limit_s:g} s", code="request_timeout", status=408
    )
