"""Sending responses in parts, so that others are served in between, to clients that take them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from headgate.apiserver.connections import BoundedProtocol

PART_BYTES = 64 * 1024


class StalledError(Exception):
    """The client does not take what is sent to it."""


async def whole(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Sends a response. What it is read from ends with it, and not only when memory is tidied up."""
    try:
        await response(scope, receive, send)
    finally:
        if isinstance(response, StreamingResponse) and isinstance(response.body_iterator, AsyncGenerator):
            await response.body_iterator.aclose()


def in_time(send: Send, connection: BoundedProtocol | None, stalled_s: float) -> Send:
    """Sends parts of a bounded size, each when the client has taken most of the one before.

    Raises StalledError if the client takes longer than `stalled_s` for one part. Tests have no `connection`.
    """

    async def send_part(message: Message) -> None:
        try:
            async with asyncio.timeout(stalled_s):
                await send(message)
                if connection is not None:
                    await connection.sent()
        except TimeoutError as error:
            raise StalledError from error

    async def send_message(message: Message) -> None:
        body = message.get("body", b"")
        if len(body) <= PART_BYTES:
            await send_part(message)
            return
        view = memoryview(body)
        for start in range(0, len(body), PART_BYTES):
            part = bytes(view[start : start + PART_BYTES])
            more = start + PART_BYTES < len(body) or message.get("more_body", False)
            await send_part({"type": message["type"], "body": part, "more_body": more})

    return send_message
