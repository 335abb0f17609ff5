"""The load: requests by wrk, streams by a small client of our own that checks every byte.

Both return what was completed inside a window, and what that window cost the proxy by `cost`, a function that
reads its CPU seconds.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import statistics
import subprocess
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import httptools

import upstream

CHAT_PATH = "/v1/chat/completions"
WRK_SCRIPT = Path(__file__).with_name("post.lua")
_WORDS = [
    "gate",
    "canal",
    "level",
    "flow",
    "water",
    "stone",
    "river",
    "mill",
    "wheel",
    "field",
    "season",
    "keeper",
    "sluice",
    "measure",
    "north",
    "rain",
]

Cost = Callable[[], float]


@dataclass(frozen=True)
class Window:
    """One measurement: `work` items (requests or chunks) in `seconds`, which cost `cpu_s`."""

    work: int
    seconds: float
    cpu_s: float
    p50_ms: float
    p99_ms: float
    failures: tuple[str, ...] = ()

    @property
    def cpu_us(self) -> float:
        return self.cpu_s * 1e6 / self.work if self.work else float("nan")


def chat_bodies(prompt_bytes: int, count: int = 64, families: int = 8, **options: object) -> list[bytes]:
    """Chat requests whose prompts share their first half with others, as those of one application do."""
    rng = random.Random(prompt_bytes)

    def text(length: int) -> str:
        words = ""
        while len(words) < length:
            words += rng.choice(_WORDS) + f"{rng.randrange(1000)} "
        return words[:length]

    system = [text(prompt_bytes // 2) for _ in range(families)]
    return [
        chat_body(system[number % families], text(prompt_bytes - prompt_bytes // 2), **options)
        for number in range(count)
    ]


def chat_body(system: str, user: str, **options: object) -> bytes:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    document = {"model": upstream.MODEL, "messages": messages, "temperature": 0.7, **options}
    return json.dumps(document, separators=(",", ":")).encode()


def requests(
    address: str, bodies: Sequence[bytes], seconds: float, connections: int, cost: Cost, scratch: Path
) -> Window:
    """Post `bodies` in turn over keep-alive connections for `seconds`."""
    file = scratch / "bodies.jsonl"
    file.write_bytes(b"\n".join(bodies) + b"\n")
    url = f"http://{address}{CHAT_PATH}"
    command = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "10s"]
    before = cost()
    ran = subprocess.run(
        [*command, "-s", str(WRK_SCRIPT), url, "--", str(file)], capture_output=True, text=True, check=False
    )
    cpu_s = cost() - before
    line = next((line for line in ran.stdout.splitlines() if line.startswith("RESULT ")), None)
    if line is None:
        raise RuntimeError(f"wrk gave no result: {(ran.stderr or ran.stdout).strip()[-300:]}")
    return _window(json.loads(line.removeprefix("RESULT ")), cpu_s)


def _window(result: dict[str, float], cpu_s: float) -> Window:
    kinds = {"status": "answers that are not 2xx or 3xx"} | {
        kind: f"{kind} errors" for kind in ("connect", "read", "write", "timeout")
    }
    return Window(
        work=int(result["requests"]),
        seconds=result["duration_us"] / 1e6,
        cpu_s=cpu_s,
        p50_ms=result["p50_us"] / 1000,
        p99_ms=result["p99_us"] / 1000,
        failures=tuple(f"{result[kind]:.0f} {name}" for kind, name in kinds.items() if result[kind]),
    )


class Stream(asyncio.Protocol):
    """One connection that carries stream after stream and compares each with what the engine sent."""

    def __init__(self, load: StreamLoad) -> None:
        self._load = load
        self.finished = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._ask()

    def _ask(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._seen = 0
        self._arrived = 0.0
        self._transport.write(self._load.next_request())

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(f"not HTTP: {error}")

    def on_headers_complete(self) -> None:
        if (status := self._parser.get_status_code()) != 200:
            self._fail(f"status {status}")

    def on_body(self, body: bytes) -> None:
        load = self._load
        if not load.expected.startswith(body, self._seen):
            self._fail(f"bytes differ within {len(body)} bytes after {self._seen}")
            return
        now = time.perf_counter()
        if self._arrived and load.measuring:
            load.gaps.append(now - self._arrived)
        self._arrived = now
        before = self._seen // load.event_bytes
        self._seen += len(body)
        load.chunks += min(self._seen // load.event_bytes, load.length) - before

    def on_message_complete(self) -> None:
        if self.finished.done():
            return
        if self._seen != len(self._load.expected):
            self._fail(f"ended after {self._seen} of {len(self._load.expected)} bytes")
            return
        self._load.complete += 1
        if self._load.closing:
            self.finished.set_result(None)
            self._transport.close()
        else:
            # Not inside the parser's own callback: a new stream gets a new parser.
            asyncio.get_running_loop().call_soon(self._ask)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.finished.done():
            self._fail(f"connection closed after {self._seen} bytes ({exc or 'end of file'})")

    def _fail(self, reason: str) -> None:
        if not self.finished.done():
            self._load.failures.append(reason)
            self.finished.set_result(None)
        self._transport.abort()


class StreamLoad:
    """Keeps a number of streams open; every one is followed to its end."""

    def __init__(self, address: str, streams: int, length: int) -> None:
        self._host, _, self._port = address.rpartition(":")
        self._streams = streams
        self.length = length
        self.expected = upstream.stream_body(length)
        self.event_bytes = len(upstream.event(0))
        head = f"POST {CHAT_PATH} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n"
        bodies = chat_bodies(600, stream=True, max_tokens=length)
        self._requests = itertools.cycle(
            f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body for body in bodies
        )
        self.chunks = self.complete = 0
        self.failures: list[str] = []
        self.gaps = array("d")
        self.measuring = self.closing = False

    def next_request(self) -> bytes:
        return next(self._requests)

    async def run(self, warmup: float, seconds: float, cost: Cost) -> Window:
        """Open all streams during the warm-up, measure, then let every stream end."""
        loop = asyncio.get_running_loop()
        protocols: list[Stream] = []
        started = loop.time()
        for number in range(self._streams):
            _, protocol = await loop.create_connection(lambda: Stream(self), self._host, int(self._port))
            protocols.append(protocol)
            # Spread over half of the warm-up, so that the streams don't all end in one moment.
            await asyncio.sleep(max(0.0, started + warmup / 2 * number / self._streams - loop.time()))
        await asyncio.sleep(max(0.0, started + warmup - loop.time()))
        window = await self._measure(seconds, cost)
        self.closing = True
        _, unfinished = await asyncio.wait([protocol.finished for protocol in protocols], timeout=30)
        if unfinished:
            self.failures.append(f"{len(unfinished)} streams did not end")
        return replace(window, failures=tuple(self.failures))

    async def _measure(self, seconds: float, cost: Cost) -> Window:
        self.measuring = True
        chunks, cpu_s, began = self.chunks, cost(), time.perf_counter()
        await asyncio.sleep(seconds)
        work, cpu_s, took = self.chunks - chunks, cost() - cpu_s, time.perf_counter() - began
        self.measuring = False
        cuts = statistics.quantiles(self.gaps, n=100) if len(self.gaps) > 1 else [float("nan")] * 99
        return Window(work, took, cpu_s, p50_ms=cuts[49] * 1000, p99_ms=cuts[98] * 1000)
