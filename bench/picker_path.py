"""CPU time and Python calls of the picker's own code for one request, in µs: `make bench-picker-path`.

The complete path in one process: frames of Envoy in, frames to Envoy out, for the stream of one request with
its body and its response, in the mode FULL_DUPLEX_STREAMED. There are no sockets: what is written is only
recorded. Each message arrives in a read of its own, as from a proxy without load. CPU time is the minimum of
several runs; it is also given in units of a plain Python loop, to compare machines.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

import data_path
import pieces
import upstream
from headgate import api, extproc, loop_turns, routing, rpc, telemetry
from headgate.dataplane.records.recorder import Recorder
from headgate.http2 import frames, hpack
from headgate.picker.settings import PickerSettings
from headgate.picker.shell import Shell
from headgate.rpc.messages import prefix

KEY = api.ObjectRef(routing.INFERENCE_POOL, "default", "pool")
REPEATS, RUNS = 100, 40
FULL_DUPLEX = 4


def field(number: int, value: bytes) -> bytes:
    """A field of a protobuf message."""
    size, made = len(value), bytearray((number << 3 | 2,))
    while size >= 0x80:
        made.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes((*made, size)) + value


def flag(number: int, value: int) -> bytes:
    return bytes((number << 3, value))


def headers_message(number: int, headers: dict[str, str]) -> bytes:
    """A ProcessingRequest with headers: of the request (2) or of the response (3)."""
    listed = b"".join(
        field(1, field(1, name.encode()) + field(3, value.encode())) for name, value in headers.items()
    )
    modes = field(11, flag(1, FULL_DUPLEX) + flag(2, FULL_DUPLEX)) if number == 2 else b""
    return field(number, field(1, listed)) + modes


def body_message(number: int, body: bytes) -> bytes:
    """A ProcessingRequest with a whole body: of the request (4) or of the response (5)."""
    return field(number, field(1, body) + flag(2, 1))


REQUEST = {
    ":authority": "gateway",
    ":path": "/v1/chat/completions",
    ":method": "POST",
    ":scheme": "http",
    "content-type": "application/json",
    "user-agent": "OpenAI/Python 2.0.0",
    "authorization": "Bearer none",
    "x-forwarded-proto": "http",
    "x-request-id": "af09cd66-0d11-4ceb-8dd2-eaa3a4bd2887",
}
RESPONSE = {":status": "200", "content-type": "application/json", "x-envoy-upstream-service-time": "12"}
CALL = hpack.encode(
    [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", extproc.PATH.encode()),
        (b":authority", b"picker"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
    ]
)


class Path:
    """One picker of four engines, and one connection of Envoy."""

    def __init__(self, loop: asyncio.AbstractEventLoop, policy: str, engines: int = 4) -> None:
        settings = PickerSettings()
        scheduling = type(settings.scheduling)(policy=policy)
        settings = type(settings)(scheduling=scheduling)
        self.shell = Shell(settings, Recorder(telemetry.Registry(), None, "off"), loop)
        found = tuple(routing.Endpoint(f"default/{n}", f"127.71.0.{n + 1}", 8000) for n in range(engines))
        self.shell.use(routing.Snapshot(models={}, pools={KEY: routing.Pool(key=KEY, endpoints=found)}))
        self.shell.plane.is_ready = True
        self.server = rpc.Server({extproc.PATH: self.shell.open}, loop_turns.Turns(loop))
        self.connect()

    def connect(self) -> None:
        self._stream = -1
        self.wire = data_path.Wire(self.server.protocol())
        self.wire.protocol.data_received(
            frames.PREFACE
            + frames.settings([(frames.INITIAL_WINDOW_SIZE, 1 << 28)])
            + frames.window_update(0, (1 << 30) - 1)
        )

    def request(self, messages: list[bytes]) -> None:
        """One stream with these messages."""
        receive = self.wire.protocol.data_received
        self._stream += 2
        number = self._stream
        receive(frames.frame(frames.HEADERS, number, CALL, frames.END_HEADERS) + _data(number, messages[0]))
        for message in messages[1:]:
            receive(_data(number, message))
        if number > 100_000:
            self.connect()


def _data(number: int, message: bytes) -> bytes:
    return frames.frame(frames.DATA, number, prefix(len(message)) + message)


def requests(path: Path, size: int) -> Callable[[], object]:
    """A complete request and its response."""
    body = data_path.message(size).partition(b"\r\n\r\n")[2]
    messages = [
        headers_message(2, REQUEST),
        body_message(4, body),
        headers_message(3, RESPONSE),
        body_message(5, upstream.COMPLETION),
    ]

    def work() -> None:
        path.request(messages)

    return work


async def main() -> None:
    loop_turns.TURN_S = loop_turns.MAX_S = math.inf  # all of it is one iteration of the event loop
    loop = asyncio.get_running_loop()
    rows = {
        "request of 0.6 KB, least work": requests(Path(loop, "least-work"), 600),
        "request of 0.6 KB, predicted": requests(Path(loop, "predicted"), 600),
        "request of 8 KB, predicted": requests(Path(loop, "predicted"), 8192),
    }
    for work in rows.values():
        for _ in range(200):
            work()
    costs = pieces.costs_us({pieces.LOOP: pieces.python_loop, **rows}, repeats=REPEATS, runs=RUNS)
    unit = costs[pieces.LOOP]
    print(f"{'in the picker':<36}{'µs':>8}{'loops':>8}{'calls':>8}")
    for name, us in costs.items():
        counted = f"{data_path.calls(rows[name]):>8.1f}" if name in rows else ""
        print(f"{name:<36}{us:>8.2f}{us / unit:>8.1f}{counted}")


if __name__ == "__main__":
    asyncio.run(main())
