"""Gateways that count one limit in a real Redis, under uneven load, while Redis fails.

    python bench/limits_redis.py                    # 60 s without failures, and 60 s with all of them
    python bench/limits_redis.py --seconds 20

Four gateway processes share a limit of tokens per second, and get twice as many, 70 % of them at one gateway.
In the second run, Redis is slow, gone, frozen, replaced by an empty one, and its connections are cut. The
excess over the limit is reported for the whole run, and for its worst ten seconds. The longest wait for a
lease is reported as measured, and less the time in which the gateway was not scheduled.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import uvloop
from rich.console import Console
from rich.table import Table

import redis_rig

BENCH = Path(__file__).resolve().parent
TOKENS = 50
WEIGHTS = (70, 20, 9, 1)
CONNECTIONS = 64
"""Per gateway; if all are busy, a request waits for one."""
WINDOW_S = 10.0
WAIT_S = 0.05


class Engine(asyncio.Protocol):
    """Responds to every request immediately, with the number of tokens of its prompt."""

    _body = b'{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":1}}' % TOKENS
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(_body), _body)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._data = b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, found, rest = self._data.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        if len(rest) >= length:
            self._data = rest[length:]
            self._transport.write(self.answer)


@dataclass
class Gateway:
    """A gateway process, and connections to it."""

    process: subprocess.Popen[str]
    port: int
    idle: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(
        default_factory=asyncio.Queue
    )

    async def connect(self, connections: int) -> None:
        for _ in range(connections):
            self.idle.put_nowait(await asyncio.open_connection("127.0.0.1", self.port))

    async def ask(self, request: bytes) -> int:
        """Send a request; returns the status of the response."""
        reader, writer = await self.idle.get()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        await reader.readexactly(length)
        self.idle.put_nowait((reader, writer))
        return int(head.split(b" ", 2)[1])

    async def end(self) -> dict[str, Any]:
        """End the process; returns its report."""
        while not self.idle.empty():
            _, writer = self.idle.get_nowait()
            writer.close()
            await writer.wait_closed()
        told, _ = await asyncio.get_running_loop().run_in_executor(None, self.process.communicate)
        return json.loads(told)


def request() -> bytes:
    """A request whose prompt is estimated at TOKENS."""
    body = json.dumps({"model": "m", "prompt": "x" * (4 * TOKENS - 1)}).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nhost: m\r\ncontent-type: application/json\r\n"
    return b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body)


def _start(arguments: dict[str, object]) -> subprocess.Popen[str]:
    argv = [sys.executable, str(BENCH / "limits_gateway.py"), json.dumps(arguments)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@contextlib.asynccontextmanager
async def gateways(
    way: redis_rig.Way, count: int, limit: int, unit_s: int, wait_s: float = WAIT_S
) -> AsyncIterator[list[Gateway]]:
    """Start gateways in front of one engine; they end with the context."""
    loop = asyncio.get_running_loop()
    engine = await loop.create_server(Engine, "127.0.0.1", 0)
    arguments = {
        "engine_port": engine.sockets[0].getsockname()[1],
        "redis": way.address,
        "limit": limit,
        "unit_s": unit_s,
        "wait_s": wait_s,
    }
    processes = [_start(arguments) for _ in range(count)]
    try:
        made = []
        for process in processes:
            assert process.stdout is not None
            line = await loop.run_in_executor(None, process.stdout.readline)
            made.append(Gateway(process, int(line)))
        yield made
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
        engine.close()


@dataclass
class Result:
    """The result of a run."""

    seconds: float
    limit_per_s: int
    served_at: list[float] = field(default_factory=list)
    refused: int = 0
    failed: int = 0
    told: list[dict[str, Any]] = field(default_factory=list)

    @property
    def served(self) -> int:
        return len(self.served_at) * TOKENS

    @property
    def requests(self) -> int:
        return len(self.served_at) + self.refused + self.failed

    @property
    def allowed(self) -> float:
        """The bucket, which is full at first, and its refill."""
        return self.limit_per_s * (1 + self.seconds)

    def worst_window(self) -> float:
        """The largest relative excess of any ten seconds over a full bucket and its refill."""
        at = sorted(self.served_at)
        most, first = 0, 0
        for last, moment in enumerate(at):
            while at[first] < moment - WINDOW_S:
                first += 1
            most = max(most, last - first + 1)
        return most * TOKENS / (self.limit_per_s * (1 + WINDOW_S)) - 1


async def load(made: Sequence[Gateway], result: Result, per_s: float, rng: random.Random) -> None:
    """Send requests at random times, whatever happens to earlier ones."""
    loop = asyncio.get_running_loop()
    data = request()
    began = loop.time()

    async def one(gateway: Gateway) -> None:
        status = await gateway.ask(data)
        if status == 200:
            result.served_at.append(loop.time() - began)
        elif status == 429:
            result.refused += 1
        else:
            result.failed += 1

    async with asyncio.TaskGroup() as tasks:
        due = began
        while (due := due + rng.expovariate(per_s)) < began + result.seconds:
            await asyncio.sleep(max(due - loop.time(), 0))
            tasks.create_task(one(rng.choices(made, WEIGHTS)[0]))


Fault = Callable[[redis_rig.RedisServer, redis_rig.Way], Awaitable[object]]


async def _set_delay(way: redis_rig.Way, delay_s: float) -> None:
    way.delay_s = delay_s


async def _replace(server: redis_rig.RedisServer) -> None:
    server.stop()
    await asyncio.sleep(1.0)
    server.start()


async def _cut(way: redis_rig.Way) -> None:
    for _ in range(6):
        way.cut()
        await asyncio.sleep(0.5)


async def _freeze(server: redis_rig.RedisServer, is_frozen: bool) -> None:
    (server.freeze if is_frozen else server.thaw)()


FAULTS: tuple[tuple[float, str, Fault], ...] = (
    (0.15, "answers take 200 ms", lambda server, way: _set_delay(way, 0.2)),
    (0.23, "at once again", lambda server, way: _set_delay(way, 0.0)),
    (0.32, "connections refused", lambda server, way: way.close()),
    (0.40, "taken again", lambda server, way: way.open()),
    (0.50, "frozen", lambda server, way: _freeze(server, True)),
    (0.55, "thawed", lambda server, way: _freeze(server, False)),
    (0.65, "replaced by an empty one", lambda server, way: _replace(server)),
    (0.80, "connections cut", lambda server, way: _cut(way)),
)
"""Times as a fraction of the run."""


async def run(seconds: float, limit_per_s: int, load_factor: float, faults: Sequence[Any]) -> Result:
    result = Result(seconds, limit_per_s)
    with redis_rig.redis_server() as server:
        way = redis_rig.Way(server.path)
        await way.open()
        async with gateways(way, len(WEIGHTS), limit_per_s, 1) as made:
            for gateway in made:
                await gateway.connect(CONNECTIONS)

            async def fail() -> None:
                began = time.monotonic()
                for at, name, fault in faults:
                    await asyncio.sleep(max(began + at * seconds - time.monotonic(), 0))
                    print(f"  {at * seconds:5.1f} s  {name}", file=sys.stderr, flush=True)
                    await fault(server, way)

            rng = random.Random(7)
            failing = asyncio.create_task(fail())
            await load(made, result, load_factor * limit_per_s / TOKENS, rng)
            await failing
            result.told = [await gateway.end() for gateway in made]
        await way.close()
    return result


def table(results: dict[str, Result]) -> Table:
    made = Table(title="One limit for four gateways, counted in Redis; twice as much is asked for")
    columns = "", "requests", "served tokens", "allowed", "beyond", "worst 10 s", "refused", "failed"
    for name in (*columns, "waited for Redis", "longest wait", "of its own", "exchanges a request"):
        made.add_column(name, justify="left" if not name else "right")
    for name, result in results.items():
        waits = sum(each["waits"] for each in result.told)
        exchanges = sum(each["exchanges"] for each in result.told)
        made.add_row(
            name,
            f"{result.requests}",
            f"{result.served}",
            f"{result.allowed:.0f}",
            f"{100 * (result.served / result.allowed - 1):+.2f} %",
            f"{100 * result.worst_window():+.2f} %",
            f"{result.refused}",
            f"{result.failed}",
            f"{100 * waits / result.requests:.1f} %",
            f"{1e3 * max(each['longest_wait_s'] for each in result.told):.1f} ms",
            f"{1e3 * max(each['longest_wait_alone_s'] for each in result.told):.1f} ms",
            f"{exchanges / result.requests:.2f}",
        )
    return made


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--limit", type=int, default=6000, help="tokens per second, for all gateways")
    parser.add_argument("--load", type=float, default=2.0, help="load as a multiple of the limit")
    options = parser.parse_args()
    results = {}
    for name, faults in (("Redis as it should be", ()), ("Redis failing", FAULTS)):
        results[name] = await run(options.seconds, options.limit, options.load, faults)
    Console(width=180).print(table(results))


if __name__ == "__main__":
    uvloop.run(main())
