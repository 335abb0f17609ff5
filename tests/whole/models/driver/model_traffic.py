"""A steady, bounded load on gateways, of plain and streamed requests, with every answer checked."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field

import httpx2

PAUSE_S = 0.1
"""Of each client between two requests."""
PLAIN_TOKENS, STREAM_TOKENS = 4, 40
LIMIT_S = 120.0


class WrongAnswerError(Exception):
    """The answer is not what was asked for."""


@dataclass
class Failure:
    """A request that got no good answer."""

    began: float
    ended: float
    gateway: str
    told: str


@dataclass
class Load:
    """What became of the requests so far."""

    gateways: list[str]
    """Those that take new requests, as a load balancer knows them; the test changes the list."""
    names: list[str]
    """The models that are asked, in turn; the test changes the list."""
    answered: Counter[str] = field(default_factory=Counter)
    """By the model and the Pod that answered."""
    failures: list[Failure] = field(default_factory=list)
    excused: list[tuple[float, float, str]] = field(default_factory=list)
    """Times (monotonic seconds) when requests may fail: those of a gateway, or, if it is empty, of all."""
    longest_s: float = 0.0
    _turn: itertools.count[int] = field(default_factory=itertools.count)

    async def client(self, http: httpx2.AsyncClient) -> None:
        """One request after the other."""
        while True:
            turn = next(self._turn)
            gateway = self.gateways[turn % len(self.gateways)]
            name = self.names[(turn // 2) % len(self.names)]
            began = time.monotonic()
            try:
                async with asyncio.timeout(LIMIT_S):
                    pod = await ask(http, gateway, name, streamed=turn % 2 == 1)
            except (httpx2.TransportError, WrongAnswerError, TimeoutError) as error:
                ended = time.monotonic()
                told = f"{time.strftime('%H:%M:%S')} after {ended - began:.1f} s: {name} of {gateway}: "
                told += f"{type(error).__name__}: {error}"
                self.failures.append(Failure(began, ended, gateway, told))
            else:
                self.answered[f"{name} {pod}"] += 1
                self.longest_s = max(self.longest_s, time.monotonic() - began)
            await asyncio.sleep(PAUSE_S)

    def pods(self, name: str) -> set[str]:
        """The Pods that answered for a model since `forget`."""
        return {key.split()[1] for key in self.answered if key.split()[0] == name}

    def has_no_failure(self, told: str = "") -> None:
        """Asserts it, but for the excused."""
        found = [each.told for each in self.failures if not self._is_excused(each)]
        assert not found, f"{told}: {len(found)} failures\n" + "\n".join(found[:10])

    @contextlib.contextmanager
    def excuse(self, gateway: str = "") -> Iterator[None]:
        """Requests that run at some time in the block may fail."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.excused.append((began, time.monotonic(), gateway))

    def _is_excused(self, failure: Failure) -> bool:
        return any(
            failure.began <= ended and failure.ended >= began and gateway in ("", failure.gateway)
            for began, ended, gateway in self.excused
        )

    async def goes_on(self, requests: int = 12) -> None:
        """Returns when so many more requests have ended well or not."""
        before = self.answered.total() + len(self.failures)
        while self.answered.total() + len(self.failures) < before + requests:
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def load(gateways: Sequence[str], names: Sequence[str], clients: int = 5) -> AsyncIterator[Load]:
    """Clients that ask until the end of the block, where their last requests end."""
    run = Load(list(gateways), list(names))
    limits = httpx2.Limits(max_keepalive_connections=0)
    async with httpx2.AsyncClient(trust_env=False, timeout=LIMIT_S, limits=limits) as http:
        tasks = [asyncio.create_task(run.client(http)) for _ in range(clients)]
        try:
            yield run
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def ask(
    http: httpx2.AsyncClient,
    gateway: str,
    name: str,
    *,
    streamed: bool,
    tokens: int = 0,
    prompt: str = "Hello",
    begun: Callable[[], object] = lambda: None,
) -> str:
    """Returns the Pod that answered; raises WrongAnswerError. `begun` is called when a stream has begun."""
    tokens = tokens or (STREAM_TOKENS if streamed else PLAIN_TOKENS)
    body = {
        "model": name,
        "max_tokens": tokens,
        "messages": [{"role": "user", "content": prompt}],
        **({"stream": True, "stream_options": {"include_usage": True}} if streamed else {}),
    }
    url = f"{gateway}/v1/chat/completions"
    if not streamed:
        response = await http.post(url, json=body)
        _check(response.status_code == 200, f"{response.status_code} {response.text[:500]}")
        answer = response.json()
        _check(answer["model"] == name, f"the model of {answer} is not {name}")
        _check(answer["usage"]["completion_tokens"] == tokens, f"not {tokens} tokens: {answer}")
        return response.headers.get("x-inference-pod", "-")
    async with http.stream("POST", url, json=body) as response:
        if response.status_code != 200:
            await response.aread()
        _check(response.status_code == 200, f"{response.status_code}, stream")
        begun()
        events = [line[6:] async for line in response.aiter_lines() if line.startswith("data: ")]
    _check(events[-1:] == ["[DONE]"], f"a stream of {len(events)} events ends with {events[-1:]}")
    chunks = [json.loads(event) for event in events[:-1]]
    _check(not any("error" in chunk for chunk in chunks), f"an error in a stream: {chunks[-1]}")
    _check({chunk["model"] for chunk in chunks} == {name}, f"the model of a stream is not {name}")
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks if chunk.get("usage")]
    _check(counts[-1:] == [tokens], f"a stream of {counts} tokens in place of {tokens}")
    return response.headers.get("x-inference-pod", "-")


async def begin_streams(
    http: httpx2.AsyncClient, gateways: Sequence[str], name: str, *, tokens: int
) -> list[asyncio.Task[str]]:
    """Three streams of each gateway, once all of them have begun, or failed."""

    async def stream(gateway: str, begun: asyncio.Event) -> str:
        try:
            return await ask(http, gateway, name, streamed=True, tokens=tokens, begun=begun.set)
        finally:
            begun.set()

    each = [(gateway, asyncio.Event()) for gateway in gateways for _ in range(3)]
    streams = [asyncio.create_task(stream(gateway, begun)) for gateway, begun in each]
    await asyncio.gather(*(begun.wait() for _, begun in each))
    return streams


def _check(holds: bool, told: str) -> None:
    if not holds:
        raise WrongAnswerError(told)
