"""TLS handshakes of clients: bounded in number and time, before a client counts as a connection.

An accepted connection is secured first, and then handed to the protocol that ALPN has chosen. If its client
speaks HTTP without TLS, a protocol that says so gets it. When there are too many handshakes, the oldest is
given up: a client in earnest is done within milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Final, cast

from headgate.gateway.tls.contexts import HTTP2
from headgate.telemetry import Counter

log = logging.getLogger(__name__)

HANDSHAKE_S: Final = 10.0
"""Time for a handshake."""
GOODBYE_S: Final = 2.0
"""Time for a client to confirm the end of a connection."""
MAX_HANDSHAKES: Final = 1024
"""At a time, in one process."""

READ_BYTES: Final = 64 * 1024
"""Read at a time from a secured connection."""

Make = Callable[[bool], asyncio.Protocol]
"""Makes the protocol of a secured connection: of HTTP/2 if the argument is true, else of HTTP/1.1."""


class Handshakes:
    """All handshakes of one process."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.counted = Counter(
            "headgate_gateway_tls_handshakes",
            "TLS handshakes of clients by result: `done`, `failed`, `timeout`, `displaced` by newer ones, or "
            "`plain_http` if the client spoke HTTP without TLS.",
            ("result",),
        )
        self._going_on: dict[Accepted, None] = {}
        """The oldest first."""

    def begin(self, accepted: Accepted) -> None:
        if len(self._going_on) >= MAX_HANDSHAKES:
            oldest = next(iter(self._going_on))
            self.end(oldest, "displaced")
            oldest.give_up()
        self._going_on[accepted] = None

    def end(self, accepted: Accepted, result: str) -> None:
        """A handshake has ended. A second call does nothing."""
        if accepted in self._going_on:
            del self._going_on[accepted]
            self.counted.labels(result).value += 1

    def close(self) -> None:
        """Give up all handshakes."""
        for accepted in list(self._going_on):
            self.end(accepted, "failed")
            accepted.give_up()

    def statistics(self) -> dict[str, int]:
        return {"going_on": len(self._going_on)}


class Accepted(asyncio.Protocol):
    """A connection that was just accepted."""

    def __init__(
        self,
        handshakes: Handshakes,
        context: ssl.SSLContext,
        make: Make,
        plain: Callable[[], asyncio.Protocol],
    ) -> None:
        """`plain` makes the protocol of a client that speaks HTTP without TLS."""
        self._handshakes = handshakes
        self._context = context
        self._make = make
        self._plain = plain
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._hello = b""
        """What arrived before the handshake began."""
        self._begun = asyncio.Event()
        """Set once something arrived, or nothing will."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._handshakes.begin(self)
        self._task = self._handshakes.loop.create_task(self._secure())

    def data_received(self, data: bytes) -> None:
        self._hello += data
        self._begun.set()
        if self._transport is not None:
            self._transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._begun.set()

    def give_up(self) -> None:
        """End the handshake and the connection."""
        if self._transport is not None:
            self._transport.abort()
        if self._task is not None:
            self._task.cancel()

    async def _secure(self) -> None:
        transport, early, result = self._transport, _Early(), "failed"
        assert transport is not None
        loop = self._handshakes.loop
        securing: asyncio.Task[asyncio.Transport | None] | None = None
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                await self._begun.wait()
            if not self._hello:
                return
            if _is_http(self._hello):
                result = "plain_http"
                _hand_over(transport, self._plain(), self._hello)
                return
            securing = loop.create_task(
                loop.start_tls(
                    transport,
                    early,
                    self._context,
                    server_side=True,
                    ssl_handshake_timeout=HANDSHAKE_S,
                    ssl_shutdown_timeout=GOODBYE_S,
                )
            )
            await asyncio.sleep(0)  # it has put its protocol in place, which hears of the transport next
            loop.call_soon(_pass_on, transport, self._hello)
            self._hello = b""
            secured = await securing
            result = "done"
        except asyncio.CancelledError:
            return
        except (OSError, ssl.CertificateError) as error:  # includes ssl.SSLError and TimeoutError
            if isinstance(error, TimeoutError) or "took longer" in str(error):
                result = "timeout"
            log.debug("a TLS handshake failed: %s", error)
            transport.abort()
            return
        finally:
            securing = None  # its error refers to this frame
            self._handshakes.end(self, result)
            self._task = self._transport = None
        if secured is not None:
            early.hand_over(secured, self._make)


def _is_http(data: bytes) -> bool:
    """Whether a client begins with the method of a request. A handshake begins with the byte 22."""
    return data[:3].isalpha() and data[:3].isupper()


def _hand_over(transport: asyncio.Transport, protocol: asyncio.Protocol, data: bytes) -> None:
    """Let another protocol have the connection, and what has arrived."""
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    transport.resume_reading()
    protocol.data_received(data)


def _pass_on(transport: asyncio.Transport, data: bytes) -> None:
    """Let the protocol of a handshake have data that arrived before it."""
    protocol = cast(asyncio.BufferedProtocol, transport.get_protocol())
    while data and not transport.is_closing():
        buffer = protocol.get_buffer(len(data))
        size = min(len(buffer), len(data))  # type: ignore[arg-type]
        buffer[:size] = data[:size]  # type: ignore[index]
        protocol.buffer_updated(size)
        data = data[size:]


class _Early(asyncio.Protocol):
    """Keeps what arrives together with the end of a handshake."""

    def __init__(self) -> None:
        self._data = b""
        self._is_lost = False

    def data_received(self, data: bytes) -> None:
        self._data += data

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = True  # without the error, whose traceback refers to this object

    def hand_over(self, transport: asyncio.Transport, make: Make) -> None:
        """Let the protocol that was agreed on have the connection."""
        if self._is_lost or transport.is_closing():
            transport.abort()
            return
        tls = transport.get_extra_info("ssl_object")
        protocol = make(tls.selected_alpn_protocol() == HTTP2)
        transport.set_protocol(Decrypted(protocol))
        protocol.connection_made(transport)
        if self._data:
            protocol.data_received(self._data)


class Decrypted(asyncio.BufferedProtocol):
    """Reads into one buffer for a protocol that takes bytes. Otherwise, event loops allocate 256 KiB for each
    read, which costs several times as much as decrypting a request."""

    __slots__ = ("_protocol", "_receive")

    def __init__(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol
        self._receive = protocol.data_received

    def get_buffer(self, sizehint: int) -> bytearray:
        return _buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._receive(bytes(_view[:nbytes]))

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._protocol.connection_lost(error)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()


_buffer: Final = bytearray(READ_BYTES)
_view: Final = memoryview(_buffer)
"""Of all connections: what is read is copied before anything else is."""
