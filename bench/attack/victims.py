"""The client that an attack must not harm: small requests at a steady rate, timed from when each was due.

If timed from when it was sent, a request that waited for the previous one would hide that delay.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field

import kube

CONNECTIONS = 8
WITHIN_S = 10.0
_QUESTION = json.dumps(
    {"model": "good", "messages": [{"role": "user", "content": "Is anybody there? " * 25}], "max_tokens": 2}
).encode()


@dataclass
class Latencies:
    """Latencies of the requests in one window."""

    ms: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        ordered = sorted(self.ms)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


class Victim:
    """Sends requests over a few connections, opened before the attack; broken ones are reopened."""

    def __init__(self, cluster: kube.Cluster, path: str = "") -> None:
        """`path` is a GET of the API server; without it, the requests are chat completions."""
        self._cluster = cluster
        self._request = ("GET", path, b"") if path else ("POST", "/v1/chat/completions", _QUESTION)
        self._per_s = 50.0 if path else 100.0
        self._idle: list[kube.Connection] = []

    async def connect(self) -> None:
        """Open its connections: new ones would wait behind those of an attack, such as in TLS handshakes."""
        while len(self._idle) < CONNECTIONS:
            self._idle.append(await self._cluster.connect())

    async def ask(self, seconds: float) -> Latencies:
        """Send requests for `seconds`, and wait for the last response."""
        found = Latencies()
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number in range(int(seconds * self._per_s)):
                due = began + number / self._per_s
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                group.create_task(self._one(due, found))
        return found

    def close(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    async def _one(self, due: float, found: Latencies) -> None:
        try:
            async with asyncio.timeout(WITHIN_S):
                connection = self._idle.pop() if self._idle else await self._cluster.connect()
                answer = await connection.request(*self._request)
        except (OSError, TimeoutError) as error:
            found.failures.append(type(error).__name__)
            return
        found.ms.append((time.perf_counter() - due) * 1000)
        if answer.status != 200:
            found.failures.append(f"{answer.status} {answer.body[:100].decode(errors='replace')}")
        if len(self._idle) < CONNECTIONS:
            self._idle.append(connection)
        else:
            connection.close()
