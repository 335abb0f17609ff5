"""gRPC probes: what is sent, and which responses are healthy."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded

from headgate.node import grpc_health, pod_spec, prober


class HealthServer:
    """A gRPC health service over HTTP/2, which gives one response to every call."""

    def __init__(self, message: bytes, trailers: dict[str, str], *, is_split: bool = False) -> None:
        self.message = message
        self.trailers = trailers
        self.is_split = is_split
        self.asked: list[tuple[dict[str, str], bytes]] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.initiate_connection()
        headers: dict[str, str] = {}
        body = b""
        while not self.asked and (data := await reader.read(65_536)):
            for event in connection.receive_data(data):
                if isinstance(event, RequestReceived):
                    headers = {str(name): str(value) for name, value in event.headers}
                elif isinstance(event, DataReceived):
                    body += event.data
                elif isinstance(event, StreamEnded):
                    self.asked.append((headers, body))
                    self._respond(connection, event.stream_id)
            pieces = connection.data_to_send()
            step = 1 if self.is_split else max(len(pieces), 1)
            for start in range(0, len(pieces), step):
                writer.write(pieces[start : start + step])
                await writer.drain()

    def _respond(self, connection: H2Connection, stream: int) -> None:
        framed = b"\0" + len(self.message).to_bytes(4) + self.message
        connection.send_headers(stream, [(":status", "200"), ("content-type", "application/grpc")])
        connection.send_data(stream, framed)
        connection.send_headers(stream, list(self.trailers.items()), end_stream=True)


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[int]:
    """The port of a server, whose handlers have ended when the block has."""
    ended: list[asyncio.Event] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended.append(asyncio.Event())
        event = ended[-1]
        with contextlib.suppress(ConnectionError):
            await handler(reader, writer)
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        event.set()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.gather(*(event.wait() for event in ended))


async def ask(server: HealthServer, service: str = "") -> prober.Answer:
    async with serving(server.handle) as port:
        return await asked(port, service)


async def asked(port: int, service: str = "", timeout_s: int = 60) -> prober.Answer:
    async def execute(command, limit_s):
        raise AssertionError("no command is run")

    fields = {"grpc": {"port": port, "service": service}, "timeoutSeconds": timeout_s}
    probe = msgspec.convert(fields, pod_spec.Probe)
    return await prober.ask(probe, prober.ProbeTarget("127.0.0.1", {}), execute)


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize(
    ("message", "healthy", "status"),
    [(b"\x08\x01", True, "SERVING"), (b"\x08\x02", False, "NOT_SERVING"), (b"", False, "UNKNOWN")],
)
async def test_only_a_service_that_reports_serving_is_healthy(message, healthy, status, is_split):
    """However the bytes of the response are split."""
    answer = await ask(HealthServer(message, {"grpc-status": "0"}, is_split=is_split))
    assert (answer.healthy, answer.detail) == (healthy, f"the gRPC health service reports {status}")


async def test_the_service_of_the_probe_is_named_in_the_request():
    """The call is a unary one of the standard health service, at the address of the Pod."""
    server = HealthServer(b"\x08\x01", {"grpc-status": "0"})
    await ask(server, "inference-extension")
    [(headers, body)] = server.asked
    assert headers[":path"] == "/grpc.health.v1.Health/Check"
    assert headers["content-type"] == "application/grpc"
    assert body == b"\0" + (21).to_bytes(4) + b"\x0a\x13inference-extension"


@pytest.mark.parametrize(
    ("message", "trailers", "words"),
    [
        (b"", {"grpc-status": "5", "grpc-message": "unknown service"}, "gRPC status 5, unknown service"),
        (b"", {"grpc-status": "12"}, "gRPC status 12, HTTP status 200"),
        (b"\x08\x09", {"grpc-status": "0"}, "not that of a gRPC health service"),
        (b"hello", {"grpc-status": "0"}, "not that of a gRPC health service"),
    ],
)
async def test_a_failed_call_is_unhealthy_and_says_why(message, trailers, words):
    """As is a response that is none of a health service."""
    answer = await ask(HealthServer(message, trailers))
    assert not answer.healthy
    assert words in answer.detail


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"\0" * 200_000])
async def test_a_server_that_does_not_speak_http2_is_unhealthy(said):
    """Nothing raises, and nothing is read without end."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(said)
        await writer.drain()
        writer.close()

    async with serving(handle) as port:
        answer = await asked(port)
    assert not answer.healthy


async def test_a_silent_server_is_unhealthy_within_the_timeout():
    """A server that takes the connection and says nothing costs one timeout."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serving(handle) as port:
        answer = await asked(port, timeout_s=1)
    assert not answer.healthy
    assert "within 1 s" in answer.detail


async def test_a_name_of_any_length_of_kubernetes_is_either_asked_or_refused():
    """A name that does not fit into the request is an unhealthy result, not an error of the node."""
    answer = await ask(HealthServer(b"\x08\x01", {"grpc-status": "0"}), "x" * 200)
    assert not answer.healthy
    assert grpc_health.SERVING not in answer.detail
