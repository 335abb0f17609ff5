"""The contest over HTTP: a gateway process, simulated engines in another, clients in this one."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import uvloop

import cpu
import proxies
import upstream
from headgate.traffic.traces import TimedRequest
from live import clients, running
from neighbours.queues import QUEUES
from neighbours.seen import Seen
from neighbours.virtual import CACHE_TOKENS
from proxies.headgate import Headgate

BYTES_PER_TOKEN = 4
TENANT_HEADER = "x-headgate-fairness-id"
GIVE_UP_S = 600.0
_ENDLESS = ("--queue-ttl-s", "0", "--queue-max-requests", "0", "--queue-band-max-requests", "0")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of the traffic as a client sends it; no two prompts share a prefix."""

    number: int
    timed: TimedRequest

    @property
    def at_s(self) -> float:
        return self.timed.at_s

    @property
    def headers(self) -> str:
        return f"{TENANT_HEADER}: {self.timed.tenant}\r\n"

    def body(self) -> bytes:
        unit = f"{self.number:07x} "
        size = self.timed.prompt_tokens * BYTES_PER_TOKEN
        prompt = unit * (size // len(unit) + 1)
        return json.dumps(
            {
                "model": upstream.MODEL,
                "messages": [{"role": "user", "content": prompt[:size]}],
                "max_tokens": self.timed.output_tokens,
                "ignore_eos": True,
                "stream": True,
            }
        ).encode()


class Ran(NamedTuple):
    """One run."""

    seen: list[Seen]
    """The result of each request, in order."""
    cores: float
    """CPU time of gateway, engines and clients over the duration of the run."""


def run(
    traffic: Sequence[TimedRequest],
    replicas: int,
    queue: str,
    slower: float = 1.0,
    apart: Sequence[str] | None = None,
) -> Ran:
    """Send each request at its time, until all have a response. The tenants in `apart`, if any, each get an
    equal part of the engines, as pools of the same gateway.
    """
    flow = QUEUES[queue]
    if flow is None:
        flags: tuple[str, ...] = ("--queue-enabled", "false")
    else:
        flags = (
            "--queue-enabled",
            "true",
            "--queue-fairness-ids-from",
            "anyone",
            "--queue-fairness",
            flow.band.fairness,
            *_ENDLESS,
        )
    (proxies.CACHE / "run").mkdir(parents=True, exist_ok=True)
    gateway = Headgate(flags=flags, apart=(TENANT_HEADER, apart) if apart else None)
    gateway.passes_bytes = False  # type: ignore[misc]
    gateway.install()
    asked = [Asked(number, timed) for number, timed in enumerate(traffic)]
    try:
        with running.engines(replicas, CACHE_TOKENS, [], slower) as upstreams:
            port, _ = gateway.start(upstreams, cache_aware=True)
            cpu_s, began = cpu.cpu_seconds(os.getpid()), time.perf_counter()
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                seen = runner.run(clients.replay(port, asked, GIVE_UP_S))
            cores = (cpu.cpu_seconds(os.getpid()) - cpu_s) / (time.perf_counter() - began)
            gateway.stop()
    finally:
        gateway.stop()
    return Ran([_seen(timed, each) for timed, each in zip(traffic, seen, strict=True)], cores)


def _seen(timed: TimedRequest, each: clients.Seen) -> Seen:
    return Seen(
        tenant=timed.tenant,
        asked_at_s=timed.at_s,
        prompt_tokens=timed.prompt_tokens,
        first_token_s=each.first_token_s if each.is_whole else None,
        ended_at_s=timed.at_s + each.total_s,
    )
