"""CPU time per gRPC stream of 4 messages each way, ours against grpc.aio: `make bench-rpc`.

A server and a client run in a process each, over loopback, with 64 streams in flight on one connection.
A stream is like that of an endpoint picker: a head and a body of 8 KB, both sent back, then those of a
response. The other side of each row is ours, so that only one side differs. CPU time is that of the whole
process, with the kernel's.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator

import grpc
import uvloop

import cpu
import ports
from headgate import loop_turns, rpc

PATH = "/bench.Bench/Echo"
SIZES = (600, 8192, 200, 600)
MESSAGES = tuple(b"x" * size for size in SIZES)
IN_FLIGHT = 64
WARM_UP, STREAMS = 500, 6000
PYTHON = (sys.executable, __file__)


class Echo:
    """Sends each message back."""

    def __init__(self, call: rpc.ServerCall) -> None:
        self.message = call.send
        self.half_closed = call.finish

    def cancelled(self) -> None: ...


async def serve_ours(port: int) -> None:
    server = rpc.Server({PATH: Echo}, loop_turns.Turns(asyncio.get_running_loop()))
    await server.listen("127.0.0.1", port)
    await asyncio.Event().wait()


async def serve_grpcio(port: int) -> None:
    async def echo(requests: AsyncIterator[bytes], context: object) -> AsyncIterator[bytes]:
        async for message in requests:
            yield message

    class Handler(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            return grpc.stream_stream_rpc_method_handler(echo)

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Handler(),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


class Stream:
    """One call of our client: the next messages go out when those before have come back."""

    def __init__(self, client: rpc.Client, left: list[int], done: asyncio.Future[None]) -> None:
        self._client, self._left, self._done = client, left, done
        self.begin()

    def begin(self) -> None:
        self._received = 0
        self._call = self._client.call(PATH, self)
        self._call.send(MESSAGES[0])
        self._call.send(MESSAGES[1])

    def message(self, data: bytes) -> None:
        self._received += 1
        if self._received == 2:
            self._call.send(MESSAGES[2])
            self._call.send(MESSAGES[3])
        elif self._received == 4:
            self._call.half_close()

    def closed(self, status: rpc.Status) -> None:
        assert status.code == 0, status
        self._left[0] -= 1
        if self._left[0] >= IN_FLIGHT:
            self.begin()
        elif self._left[0] == 0:
            self._done.set_result(None)


async def ask_ours(port: int, count: int) -> None:
    loop = asyncio.get_running_loop()
    client = await rpc.connect("127.0.0.1", port, loop_turns.Turns(loop))
    done, left = loop.create_future(), [count]
    for _ in range(IN_FLIGHT):
        Stream(client, left, done)
    await done
    client.close()
    await asyncio.sleep(0.01)


async def ask_grpcio(port: int, count: int) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        method = channel.stream_stream(PATH)

        async def worker(times: int) -> None:
            for _ in range(times):
                call = method()
                for pair in (MESSAGES[:2], MESSAGES[2:]):
                    for message in pair:
                        await call.write(message)
                    for _ in pair:
                        await call.read()
                await call.done_writing()
                assert await call.code() == grpc.StatusCode.OK

        await asyncio.gather(*(worker(count // IN_FLIGHT) for _ in range(IN_FLIGHT)))


def run(work: object, loop: str) -> None:
    """Run a coroutine on one of the loops."""
    factory = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work)  # type: ignore[arg-type]


def measure_server(name: str, loop: str, port: int) -> float:
    """µs of the server's process for one stream."""
    server = subprocess.Popen([*PYTHON, "serve", name, loop, str(port)])
    try:
        wait_for(port)
        run(ask_ours(port, WARM_UP), "uvloop")
        before = cpu.cpu_seconds(server.pid)
        run(ask_ours(port, STREAMS), "uvloop")
        return (cpu.cpu_seconds(server.pid) - before) / STREAMS * 1e6
    finally:
        server.kill()
        server.wait()


def measure_client(name: str, loop: str, port: int) -> float:
    """µs of the client's process for one stream, without its start."""
    server = subprocess.Popen([*PYTHON, "serve", "ours", "uvloop", str(port)])
    try:
        wait_for(port)
        told = subprocess.run(
            [*PYTHON, "ask", name, loop, str(port)], check=True, stdout=subprocess.PIPE, text=True
        )
        return float(json.loads(told.stdout))
    finally:
        server.kill()
        server.wait()


def wait_for(port: int) -> None:
    async def attempt() -> None:
        for _ in range(500):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return
        raise TimeoutError("the server did not start")

    asyncio.run(attempt())


def main(words: list[str]) -> None:
    match words:
        case ["serve", name, loop, port]:
            run((serve_ours if name == "ours" else serve_grpcio)(int(port)), loop)
        case ["ask", name, loop, port]:
            ask = ask_ours if name == "ours" else ask_grpcio
            run(ask(int(port), WARM_UP // IN_FLIGHT * IN_FLIGHT), loop)
            began, count = time.process_time(), STREAMS // IN_FLIGHT * IN_FLIGHT
            run(ask(int(port), count), loop)
            print(json.dumps((time.process_time() - began) / count * 1e6))
        case _:
            print(f"{'µs of CPU per stream of 4 + 4 messages':<44}{'server':>8}{'client':>8}")
            for name, loop in (("ours", "uvloop"), ("grpcio", "asyncio"), ("grpcio", "uvloop")):
                costs = [
                    measure(name, loop, ports.held_port()) for measure in (measure_server, measure_client)
                ]
                shown = "Headgate's rpc" if name == "ours" else f"grpc.aio on {loop}"
                print(f"{shown:<44}{costs[0]:>8.1f}{costs[1]:>8.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
