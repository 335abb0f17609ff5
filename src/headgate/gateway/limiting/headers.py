"""What clients are told of a limit: OpenAI's `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`.

Tokens are those of the direction, input or output, of which the smaller share is left. Requests, of which no
number is set, are requests like this one: how many of its size the limit has room for in a unit of time, and
how many would go now. Both are reset when that direction is full again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.flow.limits import RouteLimit

PREFIX = b"x-ratelimit-"
"""Of the names; an endpoint's own headers of that kind speak of another limit."""

_LINES = (
    b"x-ratelimit-limit-requests: %d\r\nx-ratelimit-limit-tokens: %d\r\n"
    b"x-ratelimit-remaining-requests: %d\r\nx-ratelimit-remaining-tokens: %d\r\n"
    b"x-ratelimit-reset-requests: %b\r\nx-ratelimit-reset-tokens: %b\r\n"
)


def lines(limit: RouteLimit, input_tokens: int, output_tokens: int, now: float) -> bytes:
    """The header lines for a request of so many tokens of prompt and, as expected, of answer."""
    allowed = left = requests_allowed = requests_left = math.inf
    share = math.inf
    input, output = limit.input, limit.output
    if input is not None:
        allowed = input.budget.limit
        left = input.budget.available(now)
        share = left / allowed
        requests_allowed, requests_left = allowed // input_tokens, left // input_tokens
    if output is not None:
        # It need not suffice for the whole answer: one token is enough to go.
        most = output.budget.limit
        available = output.budget.available(now)
        each = output_tokens or 1
        requests_allowed = min(requests_allowed, -(-most // each))
        requests_left = min(requests_left, -(-int(available) // each))
        if available / most < share:
            allowed, left, share = most, available, available / most
    reset = duration((1 - share) * limit.written.unit_s)
    if left < 0:
        left = requests_left = 0
    return _LINES % (requests_allowed, allowed, requests_left, left, reset, reset)


def duration(seconds: float) -> bytes:
    """As OpenAI writes it: 20ms, 8s, 1m30s, 1h0m0s; never less than it is."""
    if seconds < 1:
        return b"%dms" % math.ceil(seconds * 1000)
    whole = math.ceil(seconds)
    if whole < 60:
        return b"%ds" % whole
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return b"%dm%ds" % (minutes, rest)
    return b"%dh%dm%ds" % (*divmod(minutes, 60), rest)
