"""Simulated engines of the soak: they respond to each request by name, slowly, and fail occasionally.

    python bench/soak_engines.py --engines 4 --faults 0.1

prints its ports, and runs until its standard input ends. A request's `prompt` is repeated in its response, so
that the client can check that it got its own. Every few seconds, an engine refuses connections for a while.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys

import uvloop

import faults

PIECE_PAUSE_S = 0.01
EVENTS = 5
BIG_BYTES = 400_000
AWAY_EVERY_S = 7.0
AWAY_FOR_S = 1.0
HANGING_SHARE = 0.1
"""Share of the faults with a silent engine that are used: each lasts for seconds."""


def right_answer(request: dict[str, object]) -> faults.Answer:
    """The correct response: the prompt, in a document or in events; with padding if requested."""
    prompt = str(request["prompt"])
    if request.get("stream"):
        return faults.events([f"{prompt} {number} été" for number in range(EVENTS)])
    padding = "x" * BIG_BYTES if request.get("big") else ""
    usage = {"prompt_tokens": 3, "completion_tokens": 5}
    return faults.plain(json.dumps({"text": prompt, "padding": padding, "usage": usage}).encode())


class Engines:
    """Chooses the fault of each request; `share` of them get one."""

    def __init__(self, share: float, rng: random.Random) -> None:
        self._share = share
        self._rng = rng
        self._faults = list(faults.CATALOGUE.items())

    def choose(self, received: faults.Received) -> faults.Fault:
        try:
            request = json.loads(received.body)
        except ValueError:  # incomplete so far
            return faults.Fault(b"")
        answer = right_answer(request)
        well = faults.Fault(answer.wire, pieces=max(1, len(answer.wire) // 5), pause_s=PIECE_PAUSE_S)
        if request.get("calm") or self._rng.random() >= self._share:
            return well
        name, make = self._rng.choice(self._faults)
        if "hangs" in name and self._rng.random() >= HANGING_SHARE:
            return well
        if name == "answers byte by byte" and len(answer.wire) > 10_000:
            return well
        try:
            return make(answer)
        except (IndexError, ValueError):  # a position that this response does not have
            return well

    async def go_away_now_and_then(self, endpoints: list[faults.FaultyEndpoint]) -> None:
        while True:
            await asyncio.sleep(AWAY_EVERY_S)
            endpoint = self._rng.choice(endpoints)
            await endpoint.stop()
            await asyncio.sleep(AWAY_FOR_S)
            await endpoint.start()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", type=int, default=4)
    parser.add_argument("--faults", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    engines = Engines(options.faults, random.Random(options.seed))
    endpoints = [faults.FaultyEndpoint(engines.choose) for _ in range(options.engines)]
    for endpoint in endpoints:
        endpoint.keeps_requests = False
        await endpoint.start()
    print(*(endpoint.port for endpoint in endpoints), flush=True)
    away = asyncio.create_task(engines.go_away_now_and_then(endpoints))
    await asyncio.to_thread(sys.stdin.read)
    away.cancel()
    for endpoint in endpoints:
        await endpoint.stop()


if __name__ == "__main__":
    uvloop.run(main())
