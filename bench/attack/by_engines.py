"""Attacks by engines: endless heads and trailers, compression bombs, frame floods."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from attack.by_clients import head
from attack.target import Outcomes, Target, Wire, repeat

MODEL = "hostile"
MODEL_OF_HTTP2 = "hostile-h2"


def answered_with(fault: str, model: str = MODEL, read_bytes: int = 1) -> Callable[[Target], object]:
    """Clients request a model whose engine responds with `fault` (a name in `attack/engines.py`), and read
    `read_bytes` of each response.
    """

    async def ask(target: Target) -> Outcomes:
        body = json.dumps({"model": model, "prompt": fault}).encode()

        async def attempt() -> str:
            wire = await Wire.open(target.port)
            try:
                await wire.send(head(len(body), b"/v1/completions"), body)
                status = await wire.status(timeout_s=5)
                left = read_bytes
                while left > 0 and (data := await asyncio.wait_for(wire.reader.read(1 << 20), 5)):
                    left -= len(data)
                return status
            finally:
                wire.reset()

        return await repeat(target, 8, attempt)

    return ask
