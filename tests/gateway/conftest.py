"""A gateway on a loopback port, scripted endpoints, and clients that see every byte."""

import asyncio
import contextlib
import functools
import gc
import json
import math
import os
import random
import socket
import ssl
import struct
import types
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field

import pytest
import uvloop

from headgate import api, fleet, loop_turns, routing
from headgate.dataplane.records.recorder import Recorder
from headgate.gateway import GatewaySettings
from headgate.gateway.listener import ClientConnection
from headgate.gateway.shell import Shell
from headgate.observe.endpoint_requests import UNANSWERED_S
from headgate.telemetry import LineLog, Registry

PATIENCE_S = 30.0
"""Nothing here takes nearly as long: it only turns a hang into a failure."""


def pytest_asyncio_loop_factories(config, item):
    """Tests run on the loop that gateways run on; those of what transports do on asyncio's too, as the two
    differ in corner cases.
    """
    both = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return both if item.get_closest_marker("every_loop") else {"uvloop": uvloop.new_event_loop}


# -- endpoints


@dataclass
class Call:
    """One request as an endpoint received it; the test answers it."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    transport: asyncio.Transport

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)

    @property
    def json(self):
        return json.loads(self.body)

    def write(self, data: bytes) -> None:
        self.transport.write(data)

    def answer(self, body: bytes = b"ok", status: str = "200 OK", **headers: str) -> None:
        extra = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.write(f"HTTP/1.1 {status}\r\n{extra}content-length: {len(body)}\r\n\r\n".encode() + body)

    def close(self) -> None:
        self.transport.close()

    def reset(self) -> None:
        """Ends the connection with a TCP reset, as a killed process does."""
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


class _EndpointConnection(asyncio.Protocol):
    def __init__(self, endpoint: "Endpoint") -> None:
        self._endpoint = endpoint
        self._data = bytearray()

    def connection_made(self, transport) -> None:
        self.transport = transport
        self._endpoint.connections.append(self)
        self.lost = asyncio.get_running_loop().create_future()

    def connection_lost(self, error) -> None:
        self.lost.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            first, *lines = self._data[:end].decode("latin-1").split("\r\n")
            headers = [tuple(line.split(": ", 1)) if ": " in line else (line[:-1], "") for line in lines]
            length = next((int(value) for name, value in headers if name == "content-length"), 0)
            if len(self._data) < end + 4 + length:
                return
            body = bytes(self._data[end + 4 : end + 4 + length])
            del self._data[: end + 4 + length]
            method, target, _ = first.split(" ")
            self._endpoint.called(Call(method, target, headers, body, self.transport))


class Endpoint:
    """A scripted HTTP server. Calls are answered by `behave` if it is set, else by the test itself."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.calls: list[Call] = []
        self.connections: list[_EndpointConnection] = []
        self.behave: Callable[[Call], None] | None = None
        self._unanswered: asyncio.Queue[Call] = asyncio.Queue()
        self.tls: ssl.SSLContext | None = None

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _EndpointConnection(self),
            "127.0.0.1",
            self.port,
            reuse_address=True,
            backlog=2048,
            ssl=self.tls,
        )

    def called(self, call: Call) -> None:
        self.calls.append(call)
        if self.behave is not None:
            self.behave(call)
        else:
            self._unanswered.put_nowait(call)

    async def call(self) -> Call:
        """The next request that nobody has answered yet."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._unanswered.get()

    async def stop(self) -> None:
        """Refuses connections from now on, and ends those that there are."""
        self._server.close()
        for connection in self.connections:
            connection.transport.abort()
        await self._server.wait_closed()


# -- clients


@dataclass
class Response:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)

    @property
    def json(self):
        return json.loads(self.body)


class Client:
    """A connection to the gateway. Reads responses strictly, one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def post(self, body: bytes | dict | None = None, path: str = "/v1/chat/completions", **headers: str):
        self.send(request(body, path, **headers))

    async def head(self) -> Response:
        """A response head, with the body still to come."""
        async with asyncio.timeout(PATIENCE_S):
            raw = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = raw.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        version, status, _ = first.split(" ", 2)
        assert version == "HTTP/1.1"
        return Response(int(status), [tuple(line.split(": ", 1)) for line in lines], b"")

    async def response(self, *, has_body: bool = True) -> Response:
        response = await self.head()
        if not has_body or response.status in (204, 304):
            return response
        return await self.read_body(response)

    async def read_body(self, response: Response) -> Response:
        """Completes a response whose head was read."""
        async with asyncio.timeout(PATIENCE_S):
            if response.header("transfer-encoding") == "chunked":
                response.body = await self._chunks()
            elif (length := response.header("content-length")) is not None:
                response.body = await self.reader.readexactly(int(length))
            else:
                response.body = await self.reader.read()
        _names_nothing_inside(response)
        return response

    async def _chunks(self) -> bytes:
        body = b""
        while True:
            size = int((await self.reader.readline()).split(b";")[0], 16)
            chunk = await self.reader.readexactly(size + 2)
            assert chunk.endswith(b"\r\n")
            if size == 0:
                return body
            body += chunk[:-2]

    async def rest(self) -> bytes:
        """Everything until the gateway closes the connection, in whatever way."""
        received = b""
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(ConnectionError):
                while data := await self.reader.read(65536):
                    received += data
        return received

    async def is_closed(self) -> bool:
        return await self.rest() == b""

    def close(self) -> None:
        self.writer.transport.abort()


def _names_nothing_inside(response: Response) -> None:
    """Clients hear of errors by a code: where endpoints are, and what they are called, is for the log."""
    if response.status >= 400 and response.header("x-headgate-decision") is None:
        assert b"127.0.0." not in response.body, response.body
        assert b"default/pod-" not in response.body, response.body


def request(body: bytes | dict | None = None, path: str = "/v1/chat/completions", **headers: str) -> bytes:
    """A POST for the model "m"."""
    if body is None:
        body = {"model": "m", "prompt": "hello"}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    extra = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"POST {path} HTTP/1.1\r\nhost: gateway\r\n{extra}content-length: {len(data)}\r\n\r\n"
    return head.encode() + data


@pytest.fixture(name="request_bytes")
def _request_bytes():
    """Makes the bytes of a POST: body, path, headers."""
    return request


# -- the gateway


class _FirstWins(random.Random):
    """Breaks ties in favour of the first, so that tests know where a request goes."""

    def random(self) -> float:
        return 0.999


class Timers:
    """The event loop of a proxy, with timers that can be up before their time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._set: list[tuple[float, asyncio.TimerHandle, Callable[[], object]]] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._loop, name)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: object):
        handle = self._loop.call_later(seconds, callback, *args)
        self._set.append((seconds, handle, functools.partial(callback, *args)))
        return handle

    def running(self, seconds: float) -> list[tuple[asyncio.TimerHandle, Callable[[], object]]]:
        """Those of so many seconds that are not over."""
        return [
            (handle, end) for each, handle, end in self._set if each == seconds and not handle.cancelled()
        ]

    def end(self, seconds: float) -> None:
        """Ends those of so many seconds, in the order in which they were set."""
        for handle, end in self.running(seconds):
            if not handle.cancelled():
                handle.cancel()
                end()


OBJECTIVES = {str(priority): priority for priority in range(-9, 10)}
"""Named by their priorities. Clients say theirs in `x-llm-d-inference-objective`, where they are believed."""


@dataclass
class Gateway:
    """The data path of one gateway, without its informers."""

    shell: Shell
    port: int
    registry: Registry
    recorder: Recorder
    log: "LogFile"
    _clients: list[Client] = field(default_factory=list)
    _ahead_s: float = 0.0

    def serve(
        self,
        endpoints: list[Endpoint],
        limits: routing.TokenLimits | None = None,
        uid: str = "",
        **pool: object,
    ) -> None:
        """Routes the model "m" to these endpoints; `limits` and `uid` are the route's."""
        key = api.ObjectRef("ModelServer", "default", "pool")
        made = tuple(
            routing.Endpoint(f"default/pod-{place}", "127.0.0.1", endpoint.port)
            for place, endpoint in enumerate(endpoints)
        )
        rule = routing.Rule("rule", None, (routing.Target(key, 100),))
        route = routing.Route(
            key=api.ObjectRef("ModelRoute", "default", "route"),
            name="default/route",
            model="m",
            adapters=("adapter",),
            rules=(rule,),
            limits=limits,
            uid=uid,
            created="2026-01-01T00:00:00Z",
        )
        pools = {key: routing.Pool(key=key, endpoints=made, **{"objectives": OBJECTIVES, **pool})}
        self.shell.use(routing.Snapshot(models={"m": (route,)}, adapters={"adapter": (route,)}, pools=pools))
        self.shell.plane.is_ready = True

    async def connect(self, receive_buffer: int | None = None) -> Client:
        sock = socket.socket()
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        client = Client(*await asyncio.open_connection(sock=sock, limit=receive_buffer or 1 << 20))
        self._clients.append(client)
        return client

    async def taken(self) -> ClientConnection:
        """Its side of its only client connection, as soon as it has accepted that."""
        await eventually(lambda: self.shell.clients.all)
        (connection,) = self.shell.clients.all
        return connection

    async def ask(self, *args: object, **headers: str) -> Response:
        """One request on a connection of its own."""
        client = await self.connect()
        client.post(*args, **headers)
        response = await client.response()
        client.close()
        return response

    def metric(self, name: str, **labels: str) -> float:
        """Sum of the samples of a metric that have these labels."""
        samples = [sample for family in self.registry.collect() for sample in family.samples]
        samples = [sample for sample in samples if sample.name == name]
        return sum(s.value for s in samples if labels.items() <= s.labels.items())

    @property
    def settled(self) -> int:
        return int(self.metric("headgate_gateway_requests_total"))

    def log_lines(self) -> list[str]:
        """The access log; it is closed by this."""
        return self.log.lines()

    @property
    def timers(self) -> Timers:
        """Those that are set from now on."""
        if not isinstance(self.shell.services.loop, Timers):
            self.shell.services.loop = Timers(self.shell.services.loop)
        return self.shell.services.loop

    def move(self, seconds: float) -> None:
        """Moves the clock by which it judges silence, and the age of what it knows."""
        self._ahead_s += seconds
        loop = asyncio.get_running_loop()
        self.shell.services.now = lambda: loop.time() + self._ahead_s

    def is_asking(self, load: fleet.EndpointState) -> bool:
        """Whether its query of an endpoint is open, which is without a response as soon as the clock has
        moved."""
        return self.shell.scraper.watch(load).is_unanswered(self.shell.now() + UNANSWERED_S)

    async def idle(self) -> None:
        """Waits until no request is in flight, and checks that the books are in order."""
        await eventually(lambda: not self.shell.plane.ledger.statistics()["requests"])
        self.shell.plane.ledger.validate()
        assert self.shell.plane.ledger.statistics()["work_tokens"] == 0
        self.shell.plane.routes.limits.validate()
        assert self.shell.plane.routes.limits.statistics()["reserved"] == 0

    async def end(self) -> None:
        for client in self._clients:
            client.close()
        await self.idle()
        pools = list(self.shell.plane.pools.values())
        await eventually(lambda: not any(pool.traffic.in_flight for pool in pools))
        await eventually(lambda: self.shell.services.bodies.held <= 0)
        assert not self.shell.services.bodies.held
        await self.shell.close()


class LogFile:
    """Where the access log is written to."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        self.line_log = LineLog(self.fd)

    def lines(self) -> list[str]:
        self.line_log.close()
        with open(self._path) as file:
            return file.read().splitlines()


async def eventually(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.001)


@pytest.fixture(name="eventually")
def _eventually() -> Callable[[Callable[[], object]], Awaitable[None]]:
    """Waits until a condition holds."""
    return eventually


StartGateway = Callable[..., Awaitable[Gateway]]


@pytest.fixture
async def start_gateway(tmp_path) -> AsyncIterator[StartGateway]:
    """Starts a gateway with these settings; at its end no request may be left over."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(*endpoints: Endpoint, settings: dict[str, object] | None = None, **pool: object):
            loop = asyncio.get_running_loop()
            settings = {"queue_no_endpoint_wait_s": 0.0} | (settings or {})
            chosen = GatewaySettings().replace(**settings)
            log = LogFile(str(tmp_path / "access.log"))
            stack.callback(os.close, log.fd)
            stack.callback(log.line_log.close)
            registry = Registry()
            recorder = Recorder(registry, log.line_log, chosen.logging.access_log)
            shell = Shell(chosen, recorder, loop, _FirstWins())
            server = await loop.create_server(
                functools.partial(ClientConnection, shell.services, shell.clients),
                "127.0.0.1",
                0,
                backlog=2048,
            )
            port = server.sockets[0].getsockname()[1]
            gateway = Gateway(shell, port, registry, recorder, log)
            stack.push_async_callback(gateway.end)
            stack.callback(server.close)
            if endpoints:
                gateway.serve(list(endpoints), **pool)
            return gateway

        yield start


StartEndpoint = Callable[..., Awaitable[Endpoint]]


@pytest.fixture
async def start_endpoint(held_port: Callable[[], int]) -> AsyncIterator[StartEndpoint]:
    """Starts a scripted endpoint; with an answer, it gives that to every call."""
    started: list[Endpoint] = []

    async def start(
        answer: bytes | None = None,
        behave: Callable[[Call], None] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> Endpoint:
        endpoint = Endpoint(held_port())
        endpoint.tls = tls
        endpoint.behave = behave
        if answer is not None:
            endpoint.behave = lambda call: call.answer(answer)
        await endpoint.start()
        started.append(endpoint)
        return endpoint

    yield start
    for endpoint in started:
        await endpoint.stop()


@pytest.fixture
async def endpoint(start_endpoint: StartEndpoint) -> Endpoint:
    """An endpoint whose calls the test answers."""
    return await start_endpoint()


@pytest.fixture
async def gateway(start_gateway: StartGateway, endpoint: Endpoint) -> Gateway:
    """A gateway that routes the model "m" to `endpoint`."""
    return await start_gateway(endpoint)


# -- memory

OURS = ("headgate", "httptools")
"""Packages whose objects count as garbage, and whose functions that were suspended or failed."""


@contextlib.contextmanager
def _saving_garbage() -> Iterator[list[object]]:
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def _name(found: object) -> str:
    """The qualified name of an object's type, or of the function that a frame or coroutine runs."""
    if isinstance(found, types.FrameType):
        return f"{found.f_globals.get('__name__')}.{found.f_code.co_qualname}()"
    if isinstance(found, types.CoroutineType):
        place = found.cr_code.co_filename.partition("/src/")[2]
        return f"{place.removesuffix('.py').replace('/', '.')}.{found.cr_code.co_qualname}()"
    return f"{type(found).__module__}.{type(found).__qualname__}"


@pytest.fixture(scope="module")
def _spared() -> Iterator[None]:
    """Lets collections pass over what there is, until the end of the module."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def garbage(_spared: None) -> Iterator[Callable[[], Counter[str]]]:
    """No collection runs during the test. Counts what one would have had to free, by type."""
    gc.collect()
    gc.freeze()
    gc.disable()

    def count() -> Counter[str]:
        with _saving_garbage() as found:
            gc.collect()
            names = Counter(map(_name, found))
        return Counter({name: count for name, count in names.items() if name.startswith(OURS)})

    yield count
    gc.enable()


@pytest.fixture(scope="module")
def endless_turns():
    """All that is handed to connections within one turn of the event loop is parsed in it, however slow the
    machine is. For tests that hand it over themselves."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TURN_S", "MAX_S"):
            patch.setattr(loop_turns, name, math.inf)
        yield
