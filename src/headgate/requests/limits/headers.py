"""The rate limit headers of responses, as in OpenAI's API:
`x-ratelimit-{limit,remaining,reset}-{requests,tokens}`.

Tokens are those of the direction, input or output, with the smaller share left. Requests have no limit of
their own: the headers give the number of requests of this size that the limit allows per unit of time, and
how many of them could be sent now. Both reset when that direction is full again.
"""

from __future__ import annotations

import functools
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.flow.limits import RouteLimit

_LINES = (
    b"x-ratelimit-limit-requests: %d\r\nx-ratelimit-limit-tokens: %d\r\n"
    b"x-ratelimit-remaining-requests: %d\r\nx-ratelimit-remaining-tokens: %d\r\n"
    b"x-ratelimit-reset-requests: %b\r\nx-ratelimit-reset-tokens: %b\r\n"
)
_DEGRADED = b"x-headgate-degraded: rate-limit\r\n"
"""Sent if this gateway enforced its own share, because it cannot reach the shared counter."""


def lines(limit: RouteLimit, input_tokens: int, output_tokens: int, now: float) -> bytes:
    """The header lines for a request with these prompt tokens and expected response tokens."""
    input, output, written = limit.input, limit.output, limit.written
    allowed = left = requests_allowed = requests_left = 0
    share = 2.0
    if input is not None:
        budget = input.budget
        allowed, available = budget.limit, budget.available(now)
        share = available / allowed
        left = int(available)
        requests_allowed, requests_left = allowed // input_tokens, left // input_tokens
    if output is not None:
        budget = output.budget
        most, available = budget.limit, budget.available(now)
        there, part = int(available), available / most
        # The rest need not suffice for the whole response: one token is enough to start.
        each = output_tokens or 1
        may, might = -(-there // each), -(-most // each)
        if input is None or may < requests_left:
            requests_left = may
        if input is None or might < requests_allowed:
            requests_allowed = might
        if part < share:
            allowed, left, share = most, there, part
    reset_s = (1 - share) * written.unit_s
    reset = _milliseconds(ceil(reset_s) * 1000 if reset_s >= 1 else ceil(reset_s * 1000))
    if left < 0:
        left = 0
    if requests_left < 0:
        requests_left = 0
    told = _LINES % (requests_allowed, allowed, requests_left, left, reset, reset)
    return told if written.redis_address is None or not limit.is_parted else told + _DEGRADED


def duration(seconds: float) -> bytes:
    """Format as OpenAI does: 20ms, 8s, 1m30s, 1h0m0s; rounded up."""
    return _milliseconds(ceil(seconds) * 1000 if seconds >= 1 else ceil(seconds * 1000))


@functools.lru_cache(4096)
def _milliseconds(count: int) -> bytes:
    """From 1000 on, a multiple of 1000."""
    if 0 < count < 1000:
        return b"%dms" % count
    minutes, seconds = divmod(count // 1000, 60)
    if not minutes:
        return b"%ds" % seconds
    if minutes < 60:
        return b"%dm%ds" % (minutes, seconds)
    return b"%dh%dm%ds" % (*divmod(minutes, 60), seconds)
