"""Clients of scaled models: they check each response, and go to another gateway if theirs is killed."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

from scaled_rig import Gateway

WORDS = ("boat", "lock", "canal", "river", "bridge", "harbor", "barge", "tide", "rope", "mast")
PROMPT_WORDS = 200
PATIENCE_S = 180.0
"""More than any start takes."""
RETRY_S = 0.1
KILL_IS_KNOWN_S = 1.0
"""A connection ends this much after the kill at the latest."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one request: `served`; `broken` (a stream, by the kill of its engine); or why it
    failed."""

    model: str
    how: str
    began: float
    first_byte_s: float
    ended: float
    others: int = 0
    """How often the client went to another gateway, as one was down or was killed."""
    detail: str = ""

    @property
    def is_failure(self) -> bool:
        return self.how not in ("served", "broken")


class WrongAnswerError(Exception):
    """The response is not what was asked for; the message begins with a kind of failure."""


@dataclass
class Clients:
    """Sends requests, each by a client of its own."""

    gateways: Sequence[Gateway]
    rng: random.Random
    http: httpx2.AsyncClient
    engine_kills: list[tuple[float, str]] = field(default_factory=list)
    """When which Pod's engine was killed."""
    results: list[Result] = field(default_factory=list)
    running: set[asyncio.Task[None]] = field(default_factory=set)

    def send(self, model: str, *, streamed: bool, words: int = PROMPT_WORDS, tokens: int = 0) -> None:
        task = asyncio.create_task(self._ask(model, streamed, words, tokens or (40 if streamed else 4)))
        self.running.add(task)
        task.add_done_callback(self.running.discard)

    async def end(self) -> None:
        """Wait for all."""
        while self.running:
            await asyncio.wait(self.running)

    async def _ask(self, model: str, streamed: bool, words: int, tokens: int) -> None:
        body = {
            "model": model,
            "max_tokens": tokens,
            "messages": [{"role": "user", "content": " ".join(self.rng.choices(WORDS, k=words))}],
            **({"stream": True, "stream_options": {"include_usage": True}} if streamed else {}),
        }
        first, others = time.monotonic(), 0
        while True:
            gateway = self.rng.choice([each for each in self.gateways if each.is_in_rotation])
            attempt = Attempt(self.http, gateway.url, body)
            began = time.monotonic()
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await attempt.run()
                how, detail = "served", ""
            except WrongAnswerError as error:
                how, _, detail = str(error).partition(": ")
                if streamed and self._is_engine_killed(attempt.pod, began):
                    how = "broken"
            except httpx2.ConnectError:
                how, detail = "refused", gateway.name
            except (httpx2.TransportError, TimeoutError) as error:
                how, detail = "cut" if isinstance(error, httpx2.TransportError) else "silent", repr(error)
                if streamed and attempt.status and self._is_engine_killed(attempt.pod, began):
                    how = "broken"
            ended = time.monotonic()
            is_lost = how != "served" and self._is_killed(gateway, began)
            if is_lost and ended - first < PATIENCE_S:
                others += 1
                await asyncio.sleep(RETRY_S)
                continue
            detail = f"{detail} ({gateway.name}, {attempt.pod or 'no Pod'})" if how != "served" else ""
            waited_s = (attempt.first_byte_at or ended) - first
            self.results.append(Result(model, how, first, waited_s, ended, others, detail))
            return

    def _is_killed(self, gateway: Gateway, since: float) -> bool:
        """Whether it was killed since then, or is not back yet."""
        last = gateway.kills[-1] if gateway.kills else float("-inf")
        return last >= since - KILL_IS_KNOWN_S or not gateway.is_in_rotation

    def _is_engine_killed(self, pod: str, since: float) -> bool:
        return any(at >= since and killed == pod for at, killed in self.engine_kills)


@dataclass
class Attempt:
    """One request to one gateway."""

    http: httpx2.AsyncClient
    gateway: str
    body: dict[str, Any]
    status: int = 0
    pod: str = ""
    first_byte_at: float | None = None

    async def run(self) -> None:
        """Raises WrongAnswerError, httpx2.TransportError."""
        pieces = []
        url = f"{self.gateway}/v1/chat/completions"
        async with self.http.stream("POST", url, json=self.body) as response:
            self.status = response.status_code
            self.pod = response.headers.get("x-inference-pod", "")
            async for piece in response.aiter_bytes():
                self.first_byte_at = self.first_byte_at or time.monotonic()
                pieces.append(piece)
        text = b"".join(pieces).decode()
        if self.status != 200:
            raise WrongAnswerError(f"status {self.status} {_code(text)}: {text[:300]}")
        wanted = self.body["max_tokens"]
        if "stream" in self.body:
            self._check_stream(text, wanted)
        elif (found := json.loads(text)["usage"]["completion_tokens"]) != wanted:
            raise WrongAnswerError(f"wrong: {found} tokens in place of {wanted}")

    def _check_stream(self, text: str, wanted: int) -> None:
        events = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
        chunks = [json.loads(event) for event in events if event != "[DONE]"]
        for chunk in chunks:
            if "error" in chunk:
                raise WrongAnswerError(f"error in a stream: {json.dumps(chunk['error'])[:300]}")
        counts = [chunk["usage"]["completion_tokens"] for chunk in chunks if chunk.get("usage")]
        if events[-1:] != ["[DONE]"] or counts[-1:] != [wanted]:
            raise WrongAnswerError(f"wrong: a stream of {len(events)} events ends with {events[-1:]}")


def _code(text: str) -> str:
    try:
        return str(json.loads(text)["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return "without a code"
