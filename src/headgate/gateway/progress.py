"""Progress reports for clients that asked for them, while their requests are queued."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headgate.dataplane.rewriting.chunks import LAST_CHUNK, chunk
from headgate.gateway import continuation
from headgate.gateway.refusals import error_event
from headgate.requests.limits import headers as limit_headers

if TYPE_CHECKING:
    from headgate.gateway.request import Request
    from headgate.requests.life import Life
    from headgate.requests.refusal import Refusal
    from headgate.requests.wait import Wait

FIRST_PROGRESS_S = 0.9
"""A request queued for less time gets no reports, and a normal response."""
PROGRESS_S = 4.9
"""Between two comments; sweeps come about once a second, and proxies often disconnect after 15 s of
silence."""


class Queued(Protocol):
    """A queued request over HTTP."""

    @property
    def life(self) -> Life: ...
    @property
    def request(self) -> Request: ...
    @property
    def request_id(self) -> bytes: ...


def tell(exchange: Queued, now: float) -> bytes:
    """The progress report that is due, if any; called about once a second."""
    wait = exchange.life.wait
    if wait is None or not wait.wants_progress:
        return b""
    silent_s = now - wait.told_at if wait.told_at else now - wait.begun_at + PROGRESS_S - FIRST_PROGRESS_S
    if silent_s < PROGRESS_S:
        return b""
    wait.told_at = now
    comment = chunk(b": %b\n\n" % wait.progress(now).encode())
    wait.told_bytes += len(comment)
    if wait.has_head:
        return comment
    wait.has_head = True
    request, held = exchange.request, exchange.life.reservation
    lines = request.response_lines
    if held is not None:
        lines += limit_headers.lines(held.limit, held.input_tokens, held.output_tokens, now)
    return continuation.head(lines, exchange.request_id, keep_alive=request.keep_alive) + comment


def refused(wait: Wait, refusal: Refusal, target: bytes) -> bytes:
    """The end of a stream whose head was sent to the client."""
    last = chunk(error_event(refusal, target)) + LAST_CHUNK
    wait.told_bytes += len(last)
    return last
