"""Minimal inference engines, far faster than any proxy, so that the proxy's cost is what is measured.

One process listens on several addresses; each address is one engine. A chat request gets a fixed completion,
or with `"stream":true` an SSE stream of `max_tokens` chunks. If the prompt asks for it, each chunk contains
its send time, or the stream stops after the first chunk until the client disconnects. Like a real engine,
each engine steps all of its streams at once; one timer steps the engines in turn, each once per pace. Parsing
is limited to what a well-behaved proxy needs: the end of the head, Content-Length, and the last chunk.

    python bench/upstream.py --listen 127.71.0.1:8000 --listen 127.71.0.2:8000 --pace-ms 20
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import re
import signal
import time
from array import array
from collections.abc import Sequence
from typing import cast

import uvloop

MODEL = "bench"
MAX_CHUNKS = 4096
DEFAULT_CHUNKS = 100
BLOCK_OF_CHUNKS = 64  # written at once if the pace is zero

DONE = b"data: [DONE]\n\n"
USAGE = (
    b'data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1700000000,"model":"bench",'
    b'"choices":[],"usage":{"prompt_tokens":150,"completion_tokens":100,"total_tokens":250}}\n\n'
)


def event(index: int) -> bytes:
    """The SSE event number `index` of every stream: all have the same length, and none are equal."""
    return (
        b'data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1700000000,"model":"bench",'
        b'"choices":[{"index":0,"delta":{"content":"token %08d"},"logprobs":null,"finish_reason":null}]}\n\n'
    ) % index


STAMPS = 10**8
"""Stamps are microseconds of the machine's monotonic clock, modulo this."""
STAMP_AT = event(0).index(b"token 00000000") + len(b"token ")


def stamp() -> int:
    """The current time, in the place of a chunk's number."""
    return time.monotonic_ns() // 1000 % STAMPS


def stream_body(chunks: int) -> bytes:
    """The exact body of a stream without usage, without the transfer coding."""
    return b"".join(event(index) for index in range(chunks)) + DONE


def _response(content_type: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n"
    return head % (content_type, len(body)) + body


def _coded(payload: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(payload), payload)


COMPLETION = (
    b'{"id":"chatcmpl-bench","object":"chat.completion","created":1700000000,"model":"bench","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"The gate is open."},"logprobs":null,"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":150,"completion_tokens":5,"total_tokens":155}}'
)
MODELS = b'{"object":"list","data":[{"id":"bench","object":"model","created":1700000000,"owned_by":"bench"}]}'
# The routers query an engine's identity before they send it anything.
INFO = b'{"model_path":"bench","model_id":"bench","served_model_name":"bench","is_generation":true}'
METRICS = b"""# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="bench"} 8.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="bench"} 0.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{model_name="bench"} 0.25
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{model_name="bench"} 100000.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{model_name="bench"} 50000.0
"""

COMPLETION_RESPONSE = _response(b"application/json", COMPLETION)
PAGES = {
    b"/health": _response(b"text/plain", b""),
    b"/v1/models": _response(b"application/json", MODELS),
    b"/metrics": _response(b"text/plain; version=0.0.4", METRICS),
}
INFO_RESPONSE = _response(b"application/json", INFO)
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
FRAMES = [_coded(event(index)) for index in range(MAX_CHUNKS)]
END = _coded(DONE) + b"0\r\n\r\n"
END_WITH_USAGE = _coded(USAGE) + END

NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n"
CHAT = b"POST /v1/chat/completions "

_CONTENT_LENGTH = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"transfer-encoding:\s*chunked", re.IGNORECASE)
_LAST_CHUNK = b"\r\n0\r\n\r\n"
"""JSON on one line never contains it. Envoy sends chunks if a picker has seen the body."""
_STREAM = re.compile(rb'"stream"\s*:\s*true')
# In the prompt, because routers drop unknown fields.
STAMP = "Stamp each chunk."
HOLD = "Hold after the first chunk."
_MAX_TOKENS = re.compile(rb'"max_tokens"\s*:\s*(\d+)')


def _page(request: bytes, body: bytes) -> bytes:
    method, target, _ = request.split(b" ", 2)
    if method == b"GET":
        return PAGES.get(target.partition(b"?")[0], INFO_RESPONSE)
    return _rendered(body) if target == b"/v1/chat/completions/render" else NOT_FOUND


@functools.lru_cache(maxsize=512)
def _rendered(body: bytes) -> bytes:
    """The prompt as tokens, one per four bytes; a cache-aware vllm-router requests them each time."""
    tokens = array("I", body[: len(body) // 4 * 4])
    ids = ",".join(str(token % 100_000) for token in tokens)
    return _response(b"application/json", b'{"request_id":"bench","token_ids":[%b]}' % ids.encode())


class Steps:
    """The shared timer: steps engine after engine, each once per pace, and sleeps without streams."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pace_s: float, engines: int) -> None:
        self.pace_s = pace_s
        self._loop = loop
        self._engines: list[set[Connection]] = [set() for _ in range(engines)]
        self._turn = 0
        self._timer: asyncio.TimerHandle | None = None

    def join(self, engine: int, stream: Connection) -> None:
        self._engines[engine].add(stream)
        if self._timer is None:
            self._schedule(self._loop.time())

    def leave(self, engine: int, stream: Connection) -> None:
        self._engines[engine].discard(stream)

    def _schedule(self, last: float) -> None:
        self._timer = self._loop.call_at(last + self.pace_s / len(self._engines), self._step, last)

    def _step(self, last: float) -> None:
        engine = self._engines[self._turn]
        self._turn = (self._turn + 1) % len(self._engines)
        for stream in [stream for stream in engine if not stream.step()]:
            engine.discard(stream)
        if any(self._engines):
            # From the planned time, not from now: a late step must not stretch the pace. A timer that is far
            # behind (a suspended machine) restarts instead of catching up in one burst.
            planned = last + self.pace_s / len(self._engines)
            self._schedule(max(planned, self._loop.time() - self.pace_s))
        else:
            self._timer = None


class Connection(asyncio.Protocol):
    """One keep-alive connection, one request at a time."""

    def __init__(self, steps: Steps, engine: int) -> None:
        self._steps = steps
        self._engine = engine
        self._buffer = b""
        self._next = self._count = 0
        self._end = END
        self._writable = True
        self._flowing = False  # whether a stream without a pace is being sent
        self._is_stamped = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._steps.leave(self._engine, self)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        while (head_end := buffer.find(b"\r\n\r\n")) >= 0:
            length = _CONTENT_LENGTH.search(buffer, 0, head_end)
            if length is not None:
                end = head_end + 4 + int(length[1])
            elif _CHUNKED.search(buffer, 0, head_end):
                end = buffer.find(_LAST_CHUNK, head_end + 2) + len(_LAST_CHUNK)
                if end < head_end:
                    break
            else:
                end = head_end + 4
            if len(buffer) < end:
                break
            self._answer(buffer, head_end + 4, end)
            buffer = buffer[end:]
        self._buffer = buffer

    def _answer(self, request: bytes, body: int, end: int) -> None:
        if not request.startswith(CHAT):
            self._transport.write(_page(request, request[body:end]))
        elif _STREAM.search(request, body, end) is None:
            self._transport.write(COMPLETION_RESPONSE)
        else:
            self._start_stream(request[body:end])

    def _start_stream(self, body: bytes) -> None:
        asked = _MAX_TOKENS.search(body)
        self._next, self._count = 0, min(int(asked[1]) if asked else DEFAULT_CHUNKS, MAX_CHUNKS)
        self._end = END_WITH_USAGE if b'"include_usage"' in body else END
        self._is_stamped = STAMP.encode() in body
        self._transport.write(STREAM_HEAD)
        if HOLD.encode() in body:
            self._transport.write(FRAMES[0])
        elif self._steps.pace_s:
            self._steps.join(self._engine, self)
        else:
            self._flowing = True
            self._flow()

    def step(self) -> bool:
        """Send one more chunk; false after the last."""
        if not self._writable:
            return True
        if self._next < self._count:
            self._transport.write(_coded(event(stamp())) if self._is_stamped else FRAMES[self._next])
            self._next += 1
            return True
        self._transport.write(self._end)
        return False

    def _flow(self) -> None:
        """Send without a pace, as fast as the reader reads."""
        while self._writable and self._flowing:
            upto = min(self._next + BLOCK_OF_CHUNKS, self._count)
            self._transport.write(b"".join(FRAMES[self._next : upto]))
            self._next = upto
            if upto == self._count:
                self._transport.write(self._end)
                self._flowing = False

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._flow()


async def serve(listen: Sequence[tuple[str, int]], pace_s: float) -> list[asyncio.Server]:
    """Start one engine per address."""
    loop = asyncio.get_running_loop()
    steps = Steps(loop, pace_s, len(listen))
    return [
        await loop.create_server(lambda engine=engine: Connection(steps, engine), host, port, backlog=1024)  # type: ignore[misc]
        for engine, (host, port) in enumerate(listen)
    ]


async def _main(listen: Sequence[tuple[str, int]], pace_s: float) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    servers = await serve(listen, pace_s)
    await stopped.wait()
    for server in servers:
        server.close()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--listen", type=_address, action="append", required=True, metavar="HOST:PORT")
    options.add_argument(
        "--pace-ms", type=float, default=20.0, help="time between chunks of a stream; 0: no pace"
    )
    given = options.parse_args()
    uvloop.run(_main(given.listen, given.pace_ms / 1000))
