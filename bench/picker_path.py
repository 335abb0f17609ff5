"""CPU time and Python calls of the endpoint picker for one request and one chunk, as bench/data_path.py.

Messages of a proxy in, replies out, through the codec and the whole machine. There are no sockets and no
HTTP/2: bench/picker.py measures the process behind Envoy.

    .venv/bin/python bench/picker_path.py
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable

import pieces
from data_path import ANSWER, CHUNK, REPEATS, RUNS, calls
from headgate import api, extproc, routing, telemetry
from headgate.dataplane.records.recorder import Recorder
from headgate.dataplane.settings import EngineMetrics, Scheduling
from headgate.picker.settings import PickerSettings, PoolNames
from headgate.picker.shell import Shell

KEY = api.ObjectRef(routing.INFERENCE_POOL, "default", "pool")
HEADERS = {
    ":method": "POST",
    ":scheme": "http",
    ":authority": "gateway",
    ":path": "/v1/chat/completions",
    "user-agent": "OpenAI/Python 2.0.0",
    "accept": "application/json",
    "content-type": "application/json",
    "authorization": "Bearer none",
    "x-forwarded-proto": "http",
    "x-request-id": "5b1f3c0a-4f5e-4c5c-9d6e-0a1b2c3d4e5f",
}
"""As Envoy sends them."""


class Call:
    """Takes the replies."""

    def send(self, message: bytes) -> None: ...
    def finish(self, status: int = 0, message: str = "") -> None: ...


def picker(loop: asyncio.AbstractEventLoop, policy: str, endpoints: int = 4) -> Shell:
    settings = PickerSettings(
        pools=PoolNames(names=("pool",)),
        scheduling=Scheduling(policy=policy),  # type: ignore[arg-type]
        engine_metrics=EngineMetrics(enabled=False),
    )
    shell = Shell(settings, Recorder(telemetry.Registry(), None), loop, random.Random(1))
    made = tuple(routing.Endpoint(f"default/{n}", "127.0.0.1", 9000 + n) for n in range(endpoints))
    shell.use(routing.Snapshot(pools={KEY: routing.Pool(key=KEY, endpoints=made)}))
    shell.plane.is_ready = True
    return shell


def _headers(headers: dict[str, str], *, is_response: bool) -> bytes:
    both = extproc.Protocol(extproc.FULL_DUPLEX_STREAMED, extproc.FULL_DUPLEX_STREAMED)
    found = extproc.HttpHeaders([(name.encode(), value.encode()) for name, value in headers.items()])
    protocol = None if is_response else both
    return extproc.encode_request(extproc.ProcessingRequest(found, is_response, protocol=protocol))


def _body(data: bytes, *, is_response: bool, ends: bool) -> bytes:
    return extproc.encode_request(extproc.ProcessingRequest(extproc.HttpBody(data, ends), is_response))


def requests(shell: Shell, size: int) -> Callable[[], object]:
    """A complete request and its response: five messages."""
    content = {"model": "m", "messages": [{"role": "user", "content": "x" * (size - 90)}], "stream": False}
    body = json.dumps(content).encode()
    sent = (
        _headers(HEADERS | {"content-length": str(len(body))}, is_response=False),
        _body(body, is_response=False, ends=True),
        _headers({":status": "200", "content-type": "application/json", "server": "x"}, is_response=True),
        _body(ANSWER.encode(), is_response=True, ends=False),
        _body(b"", is_response=True, ends=True),
    )

    def work() -> None:
        stream = shell.open(Call())
        for message in sent:
            stream.message(message)

    return work


def chunks(shell: Shell) -> Callable[[], object]:
    """One chunk of a running stream."""
    body = json.dumps({"model": "m", "messages": [], "stream": True}).encode()
    stream = shell.open(Call())
    stream.message(_headers(HEADERS, is_response=False))
    stream.message(_body(body, is_response=False, ends=True))
    stream.message(_headers({":status": "200", "content-type": "text/event-stream"}, is_response=True))
    message = _body(CHUNK, is_response=True, ends=False)

    def work() -> None:
        stream.message(message)

    return work


async def main() -> None:
    loop = asyncio.get_running_loop()
    rows = {
        "request of 0.6 KB": requests(picker(loop, "least-work"), 600),
        "the same, picked by prediction": requests(picker(loop, "predicted"), 600),
        "request of 8 KB, picked by prediction": requests(picker(loop, "predicted"), 8192),
        "chunk of a stream": chunks(picker(loop, "least-work")),
    }
    for work in rows.values():
        for _ in range(200):
            work()
    costs = pieces.costs_us({pieces.LOOP: pieces.python_loop, **rows}, repeats=REPEATS, runs=RUNS)
    unit = costs[pieces.LOOP]
    print(f"{'through the picker':<40}{'µs':>8}{'loops':>8}{'calls':>8}")
    for name, us in costs.items():
        counted = f"{calls(rows[name]):>8.1f}" if name in rows else ""
        print(f"{name:<40}{us:>8.2f}{us / unit:>8.1f}{counted}")


if __name__ == "__main__":
    asyncio.run(main())
