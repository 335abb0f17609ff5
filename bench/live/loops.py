"""Clients in closed loops over HTTP: a gateway process, a process for each engine, clients in this one.

Requests, times and measurements are those of `closed_loops`, which runs in virtual time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Iterator
from typing import NamedTuple, cast

import httptools
import uvloop

import closed_loops
import cpu
import load
import own_processes
import ports
import proxies
import upstream
from headgate.traffic.traces import TimedRequest
from proxies.headgate import Headgate

BYTES_PER_TOKEN = 4
TEMPLATE_TOKENS = 5
"""Tokens of a chat prompt besides its text, as simulated engines count."""
PROFILE = "8b-h100"


class Answer(NamedTuple):
    ended_s: float
    """Since the clients began."""
    tokens: int
    is_served: bool


class Ran(NamedTuple):
    served: closed_loops.Served
    failed: int
    cores: float
    """CPU time of all processes over the measured time, and of the gateway alone."""
    gateway_cores: float


class Client(asyncio.Protocol):
    """One request at a time, on one connection."""

    def __init__(self) -> None:
        self.answered: asyncio.Future[int] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None

    def ask(self, message: bytes) -> asyncio.Future[int]:
        """Send a request; returns the status of the complete response, 0 if there is none."""
        self.answered = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        assert self._transport is not None
        self._transport.write(message)
        return self.answered

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        self._ends(self._parser.get_status_code())

    def connection_lost(self, _: Exception | None) -> None:
        self._ends(0)

    def _ends(self, status: int) -> None:
        if self.answered is not None and not self.answered.done():
            self.answered.set_result(status)


def run(mix: closed_loops.Mix, *, is_queued: bool, engines: int, seed: int) -> Ran:
    """New engines and a new gateway with defaults, with or without its queue."""
    gateway = Headgate(flags=("--queue-enabled", "true" if is_queued else "false"))
    gateway.passes_bytes = False  # type: ignore[misc]
    gateway.install()
    (proxies.CACHE / "run").mkdir(parents=True, exist_ok=True)
    try:
        with _engines(engines) as addresses:
            port, pid = gateway.start(addresses, cache_aware=True)
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                return runner.run(_asked(port, pid, mix, engines, seed))
    finally:
        gateway.stop()


@contextlib.contextmanager
def _engines(count: int) -> Iterator[list[tuple[str, int]]]:
    hosts = [f"127.73.0.{number}" for number in range(1, count + 1)]
    port = ports.held_port(hosts[0])
    with contextlib.ExitStack() as stack:
        for number, host in enumerate(hosts):
            command = [
                "-m",
                "headgate",
                "simulate",
                "engine",
                "--profile",
                PROFILE,
                "--model",
                upstream.MODEL,
            ]
            command += ["--host", host, "--port", str(port)]
            stack.enter_context(own_processes.started(proxies.CACHE / "run", f"engine-{number}", *command))
        yield [(host, port) for host in hosts]


async def _asked(port: int, gateway: int, mix: closed_loops.Mix, engines: int, seed: int) -> Ran:
    sessions: dict[int, list[TimedRequest]] = {}
    for timed in closed_loops.requests_of(mix, engines, seed):
        turns = sessions.setdefault(timed.session, [])
        if len(turns) < closed_loops.LENGTHS:
            turns.append(timed)
    answers: list[Answer] = []
    from_s, until_s = closed_loops.counted_s(mix)
    async with asyncio.TaskGroup() as clients:
        began = time.perf_counter()
        for session, turns in sessions.items():
            clients.create_task(_loop(port, session, turns, began, answers))
        await asyncio.sleep(from_s)
        cpu_s, gateway_s = cpu.cpu_seconds(os.getpid()), cpu.cpu_seconds(gateway)
        await asyncio.sleep(began + until_s - time.perf_counter())
        cpu_s, gateway_s = cpu.cpu_seconds(os.getpid()) - cpu_s, cpu.cpu_seconds(gateway) - gateway_s
    counted = [each for each in answers if from_s <= each.ended_s < until_s]
    served, seconds = [each for each in counted if each.is_served], until_s - from_s
    return Ran(
        served=closed_loops.Served(
            per_s=len(served) / seconds, tokens_per_s=sum(each.tokens for each in served) / seconds
        ),
        failed=len(counted) - len(served),
        cores=cpu_s / seconds,
        gateway_cores=gateway_s / seconds,
    )


async def _loop(
    port: int, session: int, turns: list[TimedRequest], began: float, answers: list[Answer]
) -> None:
    """One client, which sends its next request after each response, until its time is over."""
    client, number = Client(), 0
    await asyncio.sleep(began + turns[0].at_s - time.perf_counter())
    await asyncio.get_running_loop().create_connection(lambda: client, "127.0.0.1", port)
    left_s = turns[0].until_s - (time.perf_counter() - began)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(left_s):
            while True:
                timed = turns[number % len(turns)]
                status = await client.ask(_message(port, f"{session:05x}{number:06x} ", timed))
                ended_s = time.perf_counter() - began
                tokens = timed.prompt_tokens + timed.output_tokens
                answers.append(Answer(ended_s, tokens, status == 200))
                if not status:
                    return
                number += 1
                await asyncio.sleep(closed_loops.THINK_S)
    client.close()


def _message(port: int, name: str, timed: TimedRequest) -> bytes:
    """A unique prompt, which no cache has."""
    size = max(timed.prompt_tokens - TEMPLATE_TOKENS, 1) * BYTES_PER_TOKEN
    body = json.dumps(
        {
            "model": upstream.MODEL,
            "messages": [{"role": "user", "content": (name * (size // len(name) + 1))[:size]}],
            "max_tokens": timed.output_tokens,
            "ignore_eos": True,
            "stream": timed.is_streamed,
        }
    ).encode()
    head = (
        f"POST {load.CHAT_PATH} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
