"""The gRPC health check of a probe: one call of grpc.health.v1.Health/Check over HTTP/2, without TLS.

The call is so small that the messages are written and read here: a request with the name of a service, and a
response with one number.
"""

from __future__ import annotations

import asyncio

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError

STATUSES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
"""By their numbers in the response."""
SERVING = "SERVING"

_PATH = "/grpc.health.v1.Health/Check"
_MAX_RECEIVED_BYTES = 65_536
_MAX_NAME_BYTES = 127
"""A length of one byte is enough for the names that occur."""


async def check(service: str, host: str, port: int) -> str:
    """The status that the server reports for a service; empty is the server as a whole.

    Runs until the server responds: the caller sets the time limit. Raises OSError, and ValueError if the
    response is no answer of a health service.
    """
    reader, writer = await asyncio.open_connection(host, port)
    try:
        call = _Call(service, f"{host}:{port}")
        writer.write(call.opening)
        received = 0
        while not call.is_complete:
            data = await reader.read(_MAX_RECEIVED_BYTES)
            received += len(data)
            if not data or received > _MAX_RECEIVED_BYTES:
                raise ValueError("the response is not gRPC")
            writer.write(call.receive(data))
        return call.status()
    finally:
        writer.transport.abort()


class _Call:
    """One call: bytes in, bytes out."""

    def __init__(self, service: str, authority: str) -> None:
        self.is_complete = False
        self._connection = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._connection.initiate_connection()
        headers = {
            ":method": "POST",
            ":scheme": "http",
            ":path": _PATH,
            ":authority": authority,
            "content-type": "application/grpc",
            "te": "trailers",
            "user-agent": "kube-probe/headgate",
        }
        self._connection.send_headers(1, list(headers.items()))
        self._connection.send_data(1, _framed(_request(service)), end_stream=True)
        self._headers: dict[str, str] = {}
        self._body = b""
        self.opening = self._connection.data_to_send()

    def receive(self, data: bytes) -> bytes:
        """Returns the bytes to send. Raises ValueError if the server does not speak HTTP/2."""
        try:
            events = self._connection.receive_data(data)
        except ProtocolError as error:
            raise ValueError("the response is not HTTP/2") from error
        for event in events:
            self._take(event)
        return self._connection.data_to_send()

    def status(self) -> str:
        """Raises ValueError if the call failed."""
        code, http = self._headers.get("grpc-status"), self._headers.get(":status")
        if code != "0":
            told = self._headers.get("grpc-message") or f"HTTP status {http}"
            raise ValueError(f"the health check failed: gRPC status {code}, {told}")
        message = self._body[5:]
        number = 0 if not message else message[1] if len(message) == 2 and message[0] == 8 else -1
        if self._body[:1] != b"\0" or not 0 <= number < len(STATUSES):
            raise ValueError("the response is not that of a gRPC health service")
        return STATUSES[number]

    def _take(self, event: Event) -> None:
        if isinstance(event, ResponseReceived | TrailersReceived):
            self._headers |= {str(name): str(value) for name, value in event.headers}
        elif isinstance(event, DataReceived):
            self._body += event.data
        elif isinstance(event, StreamEnded):
            self.is_complete = True
        elif isinstance(event, StreamReset | ConnectionTerminated):
            raise ValueError("the server aborted the health check")


def _request(service: str) -> bytes:
    """A HealthCheckRequest: its field 1 is the name."""
    name = service.encode()
    if len(name) > _MAX_NAME_BYTES:
        raise ValueError(f"the service name is longer than {_MAX_NAME_BYTES} bytes")
    return b"\x0a" + bytes([len(name)]) + name if name else b""


def _framed(message: bytes) -> bytes:
    """A message of gRPC, which is not compressed."""
    return b"\0" + len(message).to_bytes(4) + message
