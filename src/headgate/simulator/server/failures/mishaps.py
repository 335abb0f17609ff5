"""Responses that fail on their way: each kind changes the content or the timing, or cuts the connection."""

import asyncio
import re
from typing import NoReturn, Protocol

from headgate.simulator.server.failures.settings import FailureSettings, MishapKind

GOOD_WRITES = 2
"""Successful writes of a stream before one fails."""
TRICKLE_BYTES = 16
_USAGE = re.compile(rb'"(prompt|completion|input|output|total)_tokens":\d+')


class Wire(Protocol):
    """Where a response is written."""

    async def send_body(self, body: bytes, *, more: bool) -> None:
        """Send this unchanged."""

    async def reset(self) -> NoReturn:
        """Cut the connection."""


class Mishap:
    """The failure of one response."""

    def __init__(self, kind: MishapKind, settings: FailureSettings) -> None:
        self.kind = kind
        self._settings = settings
        self._writes = 0
        self._over = False

    def whole(self, body: bytes) -> bytes:
        """The body of a response that is not streamed, with a matching length."""
        match self.kind:
            case "partial_stream":
                return body[: len(body) // 2]
            case "malformed_json":
                return body[:-1]
            case "wrong_usage":
                return _USAGE.sub(rb'"\1_tokens":0', body)
            case _:
                return body

    async def write(self, wire: Wire, body: bytes, *, streamed: bool, more: bool) -> None:
        """Write with this failure. Once a response is cut, later writes are dropped."""
        if self._over:
            return
        self._writes += 1
        due = not streamed or self._writes == GOOD_WRITES + 1 or not more
        match self.kind:
            case "stall" if due:
                await asyncio.sleep(self._settings.stall_s)
            case "slow_loris":
                await self._trickle(wire, body)
                body = b""
            case "reset" if due:
                self._over = True
                await wire.send_body(body[: len(body) // 2], more=True)
                await wire.reset()
            case "partial_stream" if due and streamed:
                self._over = True
                body, more = body[: len(body) // 2], False
            case "malformed_json" if due and streamed:
                body = body.replace(b"}\n\n", b"\n\n")
            case "wrong_usage" if streamed:
                body = _USAGE.sub(rb'"\1_tokens":0', body)
        await wire.send_body(body, more=more)

    async def _trickle(self, wire: Wire, body: bytes) -> None:
        for at in range(0, len(body), TRICKLE_BYTES):
            await wire.send_body(body[at : at + TRICKLE_BYTES], more=True)
            await asyncio.sleep(self._settings.trickle_s)
