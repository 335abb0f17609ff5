"""Generates load: requests with wrk, and streams with our own small clients. One checks every byte, one
measures the latency of chunks, and one only keeps streams and connections open.

All return the work completed in a window and what it cost the proxy, by `cost`, a function that reads the
proxy's CPU seconds.
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
import httpx2

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
    """One measurement: `work` items (requests or chunks) in `seconds`, at a cost of `cpu_s`."""

    work: int
    seconds: float
    cpu_s: float
    p50_ms: float
    p99_ms: float
    failures: tuple[str, ...] = ()
    kb_each: float | None = None
    """Memory per item, if measured."""

    @property
    def cpu_us(self) -> float:
        return self.cpu_s * 1e6 / self.work if self.work else float("nan")


def chat_bodies(
    prompt_bytes: int, count: int = 64, families: int = 8, wish: str = "", **options: object
) -> list[bytes]:
    """Chat requests whose prompts share their first half with others, like those of one application."""
    rng = random.Random(prompt_bytes)

    def text(length: int) -> str:
        words = ""
        while len(words) < length:
            words += rng.choice(_WORDS) + f"{rng.randrange(1000)} "
        return words[:length]

    system = [text(prompt_bytes // 2) for _ in range(families)]
    return [
        chat_body(system[number % families], wish + text(prompt_bytes - prompt_bytes // 2), **options)
        for number in range(count)
    ]


def chat_body(system: str, asked: str, **options: object) -> bytes:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": asked}]
    document = {"model": upstream.MODEL, "messages": messages, "temperature": 0.7, **options}
    return json.dumps(document, separators=(",", ":")).encode()


def requests(
    address: str,
    bodies: Sequence[bytes],
    seconds: float,
    connections: int,
    cost: Cost,
    scratch: Path,
    *,
    scheme: str = "http",
    is_kept: bool = True,
) -> Window:
    """Post `bodies` in turn for `seconds`, over connections that are kept or not."""
    file = scratch / "bodies.jsonl"
    file.write_bytes(b"\n".join(bodies) + b"\n")
    url = f"{scheme}://{address}{CHAT_PATH}"
    options = [] if is_kept else ["close"]
    command = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "10s"]
    before = cost()
    ran = subprocess.run(
        [*command, "-s", str(WRK_SCRIPT), url, "--", str(file), *options],
        capture_output=True,
        text=True,
        check=False,
    )
    cpu_s = cost() - before
    line = next((line for line in ran.stdout.splitlines() if line.startswith("RESULT ")), None)
    if line is None:
        raise RuntimeError(f"wrk gave no result: {(ran.stderr or ran.stdout).strip()[-300:]}")
    return _window(json.loads(line.removeprefix("RESULT ")), cpu_s)


def http2_requests(
    address: str, body: bytes, seconds: float, connections: int, streams: int, cost: Cost, scratch: Path
) -> Window:
    """Post a body over HTTP/2 with TLS for `seconds`: `streams` requests at a time on each connection."""
    file, log = scratch / "body.json", scratch / "h2load.log"
    file.write_bytes(body)
    log.unlink(missing_ok=True)
    before, began = cost(), time.monotonic()
    command = ["h2load", "-t1", f"-c{connections}", f"-m{streams}", f"-D{max(1, round(seconds))}"]
    given = ["-d", str(file), "-H", "content-type: application/json", "--log-file", str(log)]
    ran = subprocess.run(
        [*command, *given, f"https://{address}{CHAT_PATH}"], capture_output=True, text=True, check=False
    )
    cpu_s, took_s = cost() - before, time.monotonic() - began
    if ran.returncode or not log.exists():
        raise RuntimeError(f"h2load failed: {(ran.stderr or ran.stdout).strip()[-300:]}")
    rows = [line.split("\t") for line in log.read_text().splitlines()]
    times = sorted(int(elapsed) / 1000 for _, status, elapsed in rows if status == "200")
    failed = len(rows) - len(times)
    if len(times) < 2:
        raise RuntimeError(f"h2load completed {len(times)} requests: {ran.stdout.strip()[-300:]}")
    cuts = statistics.quantiles(times, n=100)
    failures = (f"{failed} responses other than 200",) if failed else ()
    return Window(len(times), took_s, cpu_s, cuts[49], cuts[98], failures)


def _window(result: dict[str, float], cpu_s: float) -> Window:
    kinds = {"status": "responses other than 2xx or 3xx"} | {
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
    """One connection that reads stream after stream and compares each with what the engine sent."""

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
            load.times.append(now - self._arrived)
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
            # Not inside the parser's callback, because a new stream gets a new parser.
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
    """Keeps a number of streams open, and starts a new one when one ends."""

    stream: type[Stream] = Stream
    wish = ""
    """Instruction to the engines in the prompt."""

    def __init__(self, address: str, streams: int, length: int) -> None:
        self._host, _, self._port = address.rpartition(":")
        self._streams = streams
        self.length = length
        self.expected = upstream.stream_body(length)
        self.event_bytes = len(upstream.event(0))
        head = f"POST {CHAT_PATH} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n"
        bodies = chat_bodies(600, wish=self.wish, stream=True, max_tokens=length)
        self._requests = itertools.cycle(
            f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body for body in bodies
        )
        self.chunks = self.complete = 0
        self.failures: list[str] = []
        self.times = array("d")
        """The measured times of chunks in seconds: the gaps between them, or their latency."""
        self.measuring = self.closing = False

    def next_request(self) -> bytes:
        return next(self._requests)

    async def run(self, warmup: float, seconds: float, cost: Cost) -> Window:
        """Open all streams during the warm-up, measure, then let every stream end."""
        loop = asyncio.get_running_loop()
        protocols: list[Stream] = []
        started = loop.time()
        for number in range(self._streams):
            _, protocol = await loop.create_connection(lambda: self.stream(self), self._host, int(self._port))
            protocols.append(protocol)
            # Spread over half of the warm-up, so that the streams do not all end at the same time.
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
        cuts = statistics.quantiles(self.times, n=100) if len(self.times) > 1 else [float("nan")] * 99
        return Window(work, took, cpu_s, p50_ms=cuts[49] * 1000, p99_ms=cuts[98] * 1000)


class StampedStream(Stream):
    """A stream whose chunks contain the time at which the engine sent them."""

    def _ask(self) -> None:
        super()._ask()
        self._rest = b""

    def on_body(self, body: bytes) -> None:
        load, size = self._load, self._load.event_bytes
        now = upstream.stamp()
        self._seen += len(body)
        text = self._rest + body
        count = len(text) // size
        for place in range(0, count * size, size):
            at = place + upstream.STAMP_AT
            digits = text[at : at + 8]
            if not digits.isdigit() or not text.startswith(_BEFORE_STAMP, place):
                self._fail(f"no chunk at {self._seen - len(text) + place}")
                return
            if load.measuring:
                load.times.append((now - int(digits)) % upstream.STAMPS / 1e6)
        load.chunks += count
        self._rest = text[count * size :]


_BEFORE_STAMP = upstream.event(0)[: upstream.STAMP_AT]


class StampedLoad(StreamLoad):
    """Measures the latency of chunks from the engine to the client; their bytes differ."""

    stream = StampedStream
    wish = upstream.STAMP


class Held(asyncio.Protocol):
    """A connection that makes one request and then stays open."""

    def __init__(self, request: bytes, awaited: bytes) -> None:
        self._request = request
        self._awaited = awaited
        self.begun = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None
        self._seen = b""
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if self.begun.done():
            return
        self._seen += data
        if self._awaited in self._seen:
            self._seen = b""
            self.begun.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        if not self.begun.done():
            said = self._seen[:60].decode("latin-1")
            self.begun.set_exception(ConnectionError(f"closed before its response ({said!r})"))


@dataclass(frozen=True)
class Idle:
    """The one request of a connection, and the data after which it is idle."""

    body: bytes
    awaited: bytes


IDLE_STREAM = Idle(chat_body("You keep a gate.", upstream.HOLD, stream=True), upstream.event(0))
"""Waits for its second chunk."""
IDLE_CONNECTION = Idle(chat_body("You keep a gate.", "Open?"), upstream.COMPLETION)
"""Waits for the client's next request."""


async def idle(
    address: str, connections: int, kind: Idle, cost: Cost, memory_kb: Callable[[], float]
) -> Window:
    """Open connections that stay idle after one request, and measure the memory per connection."""
    loop = asyncio.get_running_loop()
    host, _, port = address.rpartition(":")
    head = f"POST {CHAT_PATH} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(kind.body)}\r\n\r\n".encode() + kind.body
    before_kb, cpu_s, began = memory_kb(), cost(), time.perf_counter()
    opened: list[Held] = []
    took: list[float] = []
    failures: list[str] = []
    for start in range(0, connections, _OPENED_AT_ONCE):
        count = min(_OPENED_AT_ONCE, connections - start)
        asked = time.perf_counter()
        made = await asyncio.gather(
            *(
                loop.create_connection(lambda: Held(request, kind.awaited), host, int(port))
                for _ in range(count)
            ),
            return_exceptions=True,
        )
        ready = [each[1] for each in made if not isinstance(each, BaseException)]
        waits = await asyncio.gather(
            *(asyncio.wait_for(held.begun, 30) for held in ready), return_exceptions=True
        )
        problems = [each for each in (*made, *waits) if isinstance(each, BaseException)]
        failures += [str(problem) or type(problem).__name__ for problem in problems]
        opened += ready
        took.append((time.perf_counter() - asked) * 1000)
        if problems:
            break
    await asyncio.sleep(_SETTLE_S)
    failures += ["closed while it was idle" for held in opened if held.begun.done() and held.lost]
    held_kb, cpu_s, seconds = memory_kb() - before_kb, cost() - cpu_s, time.perf_counter() - began
    for held in opened:
        if held.transport is not None:
            held.transport.abort()
    cuts = sorted(took)
    work = len(opened)
    return Window(
        work, seconds, cpu_s, cuts[len(cuts) // 2], cuts[-1], tuple(failures), held_kb / max(1, work)
    )


_OPENED_AT_ONCE = 64
_SETTLE_S = 2.0


def settled(read: Callable[[], float]) -> float:
    """The result of `read` after the proxy has had time to settle."""
    time.sleep(_SETTLE_S)
    return read()


def asked_in_turn(address: str, questions: Sequence[tuple[str, bytes]]) -> tuple[list[float], list[str]]:
    """Post each body to its path, one after the other; returns the latencies in ms, and the failures."""
    took: list[float] = []
    failures: list[str] = []
    headers = {"Content-Type": "application/json"}
    with httpx2.Client(base_url=f"http://{address}", headers=headers, timeout=30) as client:
        for path, body in questions:
            began = time.perf_counter()
            reply = client.post(path, content=body)
            took.append((time.perf_counter() - began) * 1000)
            if reply.status_code != 200 or reply.content != upstream.COMPLETION:
                failures.append(f"{path}: {reply.status_code} {reply.text[:60]}")
    return took, failures
