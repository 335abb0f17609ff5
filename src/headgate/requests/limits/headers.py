"""What clients are told of a limit: OpenAI's `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`.

Tokens are those of the direction, input or output, of which the smaller share is left. Requests, of which no
number is set, are requests like this one: how many of its size the limit has room for in a unit of time, and
how many would go now. Both are reset when that direction is full again.
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
"""On answers that were limited by this gateway's share: it cannot reach where all gateways count together."""


def lines(limit: RouteLimit, input_tokens: int, output_tokens: int, now: float) -> bytes:
    """The header lines for a request of so many tokens of prompt and, as expected, of answer."""
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
        # It need not suffice for the whole answer: one token is enough to go.
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
    """As OpenAI writes it: 20ms, 8s, 1m30s, 1h0m0s; never less than it is."""
    return _milliseconds(ceil(seconds) * 1000 if seconds >= 1 else ceil(seconds * 1000))


@functools.lru_cache(4096)
def _milliseconds(count: int) -> bytes:
    """Of whole seconds from 1000 on."""
    if 0 < count < 1000:
        return b"%dms" % count
    minutes, seconds = divmod(count // 1000, 60)
    if not minutes:
        return b"%ds" % seconds
    if minutes < 60:
        return b"%dm%ds" % (minutes, seconds)
    return b"%dh%dm%ds" % (*divmod(minutes, 60), seconds)
