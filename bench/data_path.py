"""CPU time and Python calls of the data path for one request and one chunk, in µs: `make bench-path`.

The complete path in one process: bytes from a client in, bytes to an endpoint out, and the response back.
There are no sockets: transports only record what is written, so that the figures cover the gateway's own code
and the parsers. CPU time is the minimum of several runs; it is also given in units of a plain Python loop, to
compare machines. Calls are Python function calls, counted in a separate run (0 if compiled).
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import math
import os
import random
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path as FilePath

import msgspec

import pieces
from headgate import api, loop_turns, routing, telemetry
from headgate.api.discovery_kinds import EndpointSlice
from headgate.auth import keys
from headgate.dataplane.credentials import key_file
from headgate.dataplane.records.recorder import Recorder
from headgate.dataplane.settings import Tracing
from headgate.dataplane.tracing import Tracer
from headgate.gateway import GatewaySettings
from headgate.gateway.connections import EndpointConnections
from headgate.gateway.gateway_api import deciding
from headgate.gateway.gateway_api.connection import EntryConnection
from headgate.gateway.listener import ClientConnection
from headgate.gateway.shell import Shell
from headgate.gateway.upstream import UpstreamConnection
from headgate.http2 import frames, hpack
from headgate.routing import gateway_api
from headgate.telemetry.tracing import SERVER, Export, FinishedTrace

REPEATS, RUNS = 200, 40
KEY = api.ObjectRef("ModelServer", "default", "pool")
USAGE = '"usage":{"prompt_tokens":160,"completion_tokens":40,"total_tokens":200}'
ANSWER = (
    json.dumps({"id": "x", "object": "chat.completion", "model": "m", "choices": []})[:-1] + f",{USAGE}}}"
)
CHUNK = b'data: {"id":"x","object":"chat.completion.chunk","choices":[{"delta":{"content":" word"}}]}\n\n'


class Wire(asyncio.Transport):
    """Records only the last bytes that were written."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.protocol = protocol
        self.written = b""
        protocol.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written = bytes(data)

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class Path:
    """One client and one endpoint, each on one connection."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        policy: str,
        endpoints: int = 4,
        keys_file: FilePath | None = None,
    ) -> None:
        settings = GatewaySettings().replace(
            scheduling_policy=policy,
            engine_metrics_enabled=False,
            auth_keys_file=str(keys_file) if keys_file is not None else None,
        )
        log = telemetry.LineLog(os.open(os.devnull, os.O_WRONLY))
        self.recorder = Recorder(telemetry.Registry(), log)
        self.shell = Shell(settings, self.recorder, loop)
        made = tuple(routing.Endpoint(f"default/{n}", "127.0.0.1", 9000 + n) for n in range(endpoints))
        rule = routing.Rule("rule", None, (routing.Target(KEY, 100),))
        route = routing.Route(
            key=api.ObjectRef("ModelRoute", "default", "route"),
            name="default/route",
            model="m",
            adapters=(),
            rules=(rule,),
            created="2026-01-01T00:00:00Z",
        )
        pools = {KEY: routing.Pool(key=KEY, endpoints=made)}
        self.shell.use(routing.Snapshot(models={"m": (route,)}, pools=pools))
        self.shell.plane.is_ready = True
        self.asked: list[Wire] = []
        pool = self.shell.plane.pools[KEY]
        for load in pool.loads:
            connections = self.shell.services.connections_to(pool, load)
            self._keep(connections)
        self.client = Wire(ClientConnection(self.shell.services, self.shell.clients))

    def _keep(self, connections: EndpointConnections) -> None:
        path = self

        class Endpoint(Wire):
            def write(self, data: bytes | bytearray | memoryview) -> None:
                path.asked.append(self)

        made = UpstreamConnection(connections)
        Endpoint(made)
        connections.keep(made)

    def ask(self, message: bytes) -> Wire:
        self.client.protocol.data_received(message)
        return self.asked.pop()

    def end_turn(self) -> None:
        """The end of an iteration of the event loop."""


class Http2Path(Path):
    """The same by a client that uses HTTP/2: each request is a stream of its one connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, policy: str) -> None:
        super().__init__(loop, policy)
        services, clients = self.shell.services, self.shell.clients
        self._connection = clients.http2.protocol(lambda: ClientConnection(services, clients))
        self._stream = -1
        self.client = Wire(self._connection)
        greeting = frames.settings([(frames.INITIAL_WINDOW_SIZE, frames.MAX_WINDOW)])
        windows = frames.window_update(0, frames.MAX_WINDOW - frames.DEFAULT_WINDOW)
        self.client.protocol.data_received(frames.PREFACE + greeting + windows)

    def ask(self, message: bytes) -> Wire:
        head, _, body = message.partition(b"\r\n\r\n")
        self._stream += 2
        block = _block(head)
        self.client.protocol.data_received(
            frames.header_frames(self._stream, block, 0)
            + frames.frame(frames.DATA, self._stream, body, frames.END_STREAM)
        )
        return self.asked.pop()

    def end_turn(self) -> None:
        self._connection.flush()


@functools.cache
def _block(head: bytes) -> bytes:
    """The headers of a request as a block that refers to no table."""
    first, *lines = head.split(b"\r\n")
    method, target, _ = first.split(b" ")
    headers = [tuple(line.split(b": ", 1)) for line in lines]
    named = [header for header in headers if header[0] != b"host"]
    pseudo = [(b":method", method), (b":scheme", b"http"), (b":path", target), (b":authority", b"gateway")]
    return hpack.encode([*pseudo, *named])


def traced(path: Path, ratio: float) -> Path:
    """The same with traces of this share of the requests; their spans go to a socket that is emptied."""
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    encode = msgspec.msgpack.Encoder().encode

    def send(trace: FinishedTrace) -> None:
        ours.send(encode(trace), socket.MSG_DONTWAIT)
        theirs.recv(1 << 20)

    export = Export(endpoint="", shown="", ratio=ratio, follows_parents=True)
    path.recorder.tracer = Tracer(Tracing(), export, random.Random(1), send, time.time, kind=SERVER)
    return path


class EntryPath(Path):
    """The same by a Gateway, whose route leads to a Service or to the pool."""

    def __init__(self, loop: asyncio.AbstractEventLoop, policy: str, *, to_pool: bool) -> None:
        super().__init__(loop, policy)
        backend = {"group": "networking.volcano.sh", "kind": "ModelServer", "name": "pool"}
        place = gateway_api.Place("", 80)
        self.shell.gateways.use(_entry_points(backend if to_pool else {"name": "web", "port": 80}))
        shared = self.shell.gateways
        for service in shared.entry_points.services.values():
            for endpoint in service.endpoints:
                self._keep(shared.connections_to(service, endpoint))
        self.client = Wire(EntryConnection(shared, place, deciding.decide))


def _entry_points(backend: dict[str, object]) -> gateway_api.EntryPoints:
    def put(store: dict, kind: type, name: str, **rest: object) -> None:
        made = msgspec.convert({"metadata": {"name": name, "namespace": "default"}, **rest}, kind)
        store[made.metadata.key] = made

    objects = gateway_api.Objects()
    put(objects.classes, api.GatewayClass, "c", spec={"controllerName": api.gateways.CONTROLLER})
    listener = {"name": "http", "port": 80, "protocol": "HTTP"}
    put(objects.gateways, api.Gateway, "g", spec={"gatewayClassName": "c", "listeners": [listener]})
    rule = {"matches": [{"path": {"value": "/v1"}}], "backendRefs": [backend]}
    put(objects.routes, api.HttpRoute, "r", spec={"parentRefs": [{"name": "g"}], "rules": [rule]})
    put(objects.services, api.Service, "web", spec={"ports": [{"port": 80}]})
    addresses = [{"addresses": [f"127.0.0.{n}"]} for n in range(1, 5)]
    web = api.ObjectKey("default", "web")
    ports, slices = [{"name": "", "port": 9000}], objects.slices[web]
    put(slices, EndpointSlice, "web", addressType="IPv4", endpoints=addresses, ports=ports)
    return gateway_api.Translator().translate(objects, {KEY: routing.Pool(key=KEY)}).entry_points


def message(size: int, *, stream: bool = False, key: str = "none", agent: str = "2.0.0") -> bytes:
    """A chat request with a body of about `size` bytes."""
    body = {"model": "m", "messages": [{"role": "user", "content": "x" * (size - 90)}], "stream": stream}
    if stream:
        body["stream_options"] = {"include_usage": True}
    data = json.dumps(body).encode()
    headers = (
        f"host: gateway\r\nuser-agent: OpenAI/Python {agent}\r\naccept: application/json\r\n"
        f"content-type: application/json\r\nauthorization: Bearer {key}\r\n"
    )
    return (
        f"POST /v1/chat/completions HTTP/1.1\r\n{headers}content-length: {len(data)}\r\n\r\n".encode() + data
    )


def requests(path: Path, size: int) -> Callable[[], object]:
    """A complete request and its response."""
    sent = message(size)
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(ANSWER)}\r\n\r\n"
    wire = (head + ANSWER).encode()

    def work() -> None:
        path.ask(sent).protocol.data_received(wire)
        path.end_turn()

    return work


def changing(path: Path, sent: Sequence[bytes]) -> Callable[[], object]:
    """Requests whose heads all differ from the one before."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(ANSWER)}\r\n\r\n"
    wire = (head + ANSWER).encode()
    following = itertools.cycle(sent)

    def work() -> None:
        path.ask(next(following)).protocol.data_received(wire)

    return work


def keys_in(file: FilePath, count: int = 1000) -> list[str]:
    """Make a file of keys; returns them."""
    made = [keys.create(f"team-{number}", "") for number in range(count)]
    key_file.change(file, lambda present: [key for _, key in made])
    return [shown for shown, _ in made]


def chunks(path: Path) -> Callable[[], object]:
    """One chunk of a running stream."""
    endpoint = path.ask(message(600, stream=True))
    framed = b"%x\r\n%b\r\n" % (len(CHUNK), CHUNK)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    endpoint.protocol.data_received(head + framed)
    receive = endpoint.protocol.data_received

    def work() -> None:
        receive(framed)
        path.end_turn()

    return work


def calls(work: Callable[[], object], count: int = 200) -> float:
    """Number of Python functions called."""
    found = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal found
        found += event == "call"

    sys.setprofile(note)
    for _ in range(count):
        work()
    sys.setprofile(None)
    return found / count - 1


async def main() -> None:
    loop_turns.TURN_S = loop_turns.MAX_S = math.inf  # all of it is one iteration of the event loop
    loop = asyncio.get_running_loop()
    file = FilePath(tempfile.mkdtemp()) / "keys.json"
    shown = keys_in(file)[:16]
    guarded = [message(600, key=key) for key in shown]
    rows = {
        "request of 0.6 KB": requests(Path(loop, "least-work"), 600),
        "the same, traces of 1 %": requests(traced(Path(loop, "least-work"), 0.01), 600),
        "the same, traces of none by chance": requests(traced(Path(loop, "least-work"), 0.0), 600),
        "the same, traces of all": requests(traced(Path(loop, "least-work"), 1.0), 600),
        "the same, picked by prediction": requests(Path(loop, "predicted"), 600),
        "request of 8 KB, picked by prediction": requests(Path(loop, "predicted"), 8192),
        "0.6 KB, a key that nobody checks": changing(Path(loop, "least-work"), guarded[:1]),
        "the same, checked": changing(Path(loop, "least-work", keys_file=file), guarded[:1]),
        "0.6 KB, another key each time": changing(Path(loop, "least-work"), guarded),
        "the same, each checked": changing(Path(loop, "least-work", keys_file=file), guarded),
        "chunk of a stream": chunks(Path(loop, "least-work")),
        "request of 0.6 KB by HTTP/2": requests(Http2Path(loop, "least-work"), 600),
        "chunk of a stream by HTTP/2": chunks(Http2Path(loop, "least-work")),
        "0.6 KB by a Gateway to a Service": requests(EntryPath(loop, "least-work", to_pool=False), 600),
        "0.6 KB by a Gateway to a pool": requests(EntryPath(loop, "least-work", to_pool=True), 600),
    }
    for work in rows.values():
        for _ in range(200):
            work()
    costs = pieces.costs_us({pieces.LOOP: pieces.python_loop, **rows}, repeats=REPEATS, runs=RUNS)
    unit = costs[pieces.LOOP]
    print(f"{'on the data path':<36}{'µs':>8}{'loops':>8}{'calls':>8}")
    for name, us in costs.items():
        counted = f"{calls(rows[name]):>8.1f}" if name in rows else ""
        print(f"{name:<36}{us:>8.2f}{us / unit:>8.1f}{counted}")


if __name__ == "__main__":
    asyncio.run(main())
