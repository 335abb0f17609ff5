"""The HTTP side of the webhook: POST /validate, and the probes /healthz and /readyz."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from headgate import cluster
from headgate.api import admission
from headgate.webhook import reviews
from headgate.webhook.references import Followed, Lookup

__all__ = ["MAX_BODY_BYTES", "Application"]

log = logging.getLogger(__name__)

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

MAX_BODY_BYTES: Final = 8 << 20
"""A review has the new and the old object, and the API server's limit for a request is 3 MiB."""
MAX_HELD_BYTES: Final = 64 << 20
"""Bodies of all requests together."""
_RESERVE_S: Final = 0.5
"""The response is sent so long before the API server stops to wait."""
_TIMEOUT = re.compile(rb"(?:^|&)timeout=([0-9]{1,2}(?:\.[0-9]{1,3})?)s(?:&|$)")


class _RejectedError(Exception):
    def __init__(self, status: int, told: str) -> None:
        super().__init__(told)
        self.status = status


class Application:
    """An ASGI application. A review that takes too long is allowed, without warnings."""

    def __init__(self, client: cluster.Client, followed: Followed, *, timeout_s: float = 5.0) -> None:
        self._client = client
        self._followed = followed
        self._timeout_s = timeout_s
        self._held_bytes = 0
        self.is_ready = False
        self.counts = {"allowed": 0, "rejected": 0, "late": 0, "invalid": 0}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["method"], scope["path"]:
            case "GET", "/healthz":
                await _send(send, 200, b"ok")
            case "GET", "/readyz":
                await _send(send, *((200, b"ok") if self.is_ready else (503, b"objects are being loaded")))
            case "POST", "/validate":
                await self._validate(scope, receive, send)
            case _:
                await _send(send, 404, b"there are /validate, /healthz and /readyz")

    def statistics(self) -> dict[str, int]:
        return {**self.counts, "held_bytes": self._held_bytes}

    async def _validate(self, scope: Scope, receive: Receive, send: Send) -> None:
        held = 0
        try:
            held = self._take(scope)
            request = reviews.decoded(await _body(receive, held))
        except (reviews.InvalidReviewError, _RejectedError) as error:
            self.counts["invalid"] += 1
            status = error.status if isinstance(error, _RejectedError) else 400
            await _send(send, status, str(error).encode())
            return
        finally:
            self._held_bytes -= held
        found = await self._judged(request, self._limit_s(scope))
        self.counts["rejected" if found.errors else "allowed"] += 1
        await _send(send, 200, msgspec.json.encode(reviews.response(request, found)), b"application/json")

    def _take(self, scope: Scope) -> int:
        """Reserve memory for the body; returns its limit."""
        given = dict(scope["headers"]).get(b"content-length", b"")
        length = int(given) if given.isdigit() and len(given) < 12 else MAX_BODY_BYTES
        if length > MAX_BODY_BYTES:
            raise _RejectedError(413, f"the body has more than {MAX_BODY_BYTES} bytes")
        if self._held_bytes + length > MAX_HELD_BYTES:
            raise _RejectedError(503, "too many reviews at once")
        self._held_bytes += length
        return length

    def _limit_s(self, scope: Scope) -> float:
        """Of the API server's timeout, which is a parameter of the URL."""
        said = _TIMEOUT.search(scope["query_string"])
        limit_s = min(self._timeout_s, float(said[1])) if said else self._timeout_s
        return max(limit_s - _RESERVE_S, limit_s / 2)

    async def _judged(self, request: reviews.Request, limit_s: float) -> admission.Findings:
        lookup = Lookup(self._followed)
        try:
            async with asyncio.timeout(limit_s):
                found = reviews.judged(request, lookup)
                if lookup.is_lacking:
                    await lookup.read(self._client)
                    found = reviews.judged(request, lookup)
        except TimeoutError:
            self.counts["late"] += 1
            log.warning("a review took more than %.1f s: the object is allowed", limit_s)
            return admission.Findings()
        found.warnings = lookup.without_unknown(found.warnings)
        return found


async def _body(receive: Receive, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _RejectedError(400, "the client left")
        size += len(message.get("body", b""))
        if size > limit:
            raise _RejectedError(413, f"the body has more than {limit} bytes")
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def _send(send: Send, status: int, body: bytes, content_type: bytes = b"text/plain") -> None:
    headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
