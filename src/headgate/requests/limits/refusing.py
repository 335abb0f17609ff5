"""The refusal of a request that exceeds its route's limit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from headgate.requests.limits.headers import duration
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.flow.limits import RouteLimit, Shortage

_NOT_AGAIN = b"x-should-retry: false\r\n"
"""Stops the SDKs of OpenAI and Anthropic from retrying a request that can never pass."""


def refusal(limit: RouteLimit, shortage: Shortage, lines: bytes) -> Refusal:
    """The refusal for this shortage, with these header lines."""
    if limit.is_cut_off and not shortage.is_for_ever:
        return _cut_off(limit.name, lines)
    return _too_little(limit, shortage, lines)


def _too_little(limit: RouteLimit, shortage: Shortage, lines: bytes) -> Refusal:
    """Type and code are OpenAI's."""
    allowed = f"the limit of {limit.name} is {shortage.limit} {shortage.direction} tokens per {shortage.unit}"
    if shortage.is_for_ever:
        return Refusal(
            status=429,
            type="tokens",
            code="rate_limit_exceeded",
            message=(
                f"the prompt is too large: it has about {shortage.needed} tokens, and {allowed}, so it can "
                f"never pass; shorten it, or raise {limit.field}"
            ),
            lines=lines + _NOT_AGAIN,
        )
    if shortage.direction == "input":
        left = f"{max(int(shortage.available), 0)} are left, and the prompt has about {shortage.needed}"
    else:
        left = "none is left"
    wait = duration(shortage.wait_s).decode()
    return Refusal(
        status=429,
        type="tokens",
        code="rate_limit_exceeded",
        message=f"too many tokens: {allowed}, of which {left}; try again in {wait}",
        retry_after_s=max(math.ceil(shortage.wait_s), 1),
        lines=lines,
    )


def _cut_off(name: str, lines: bytes) -> Refusal:
    """The limit is strict, and its Redis is unreachable."""
    return Refusal(
        status=503,
        type="service_unavailable_error",
        code="rate_limiter_unavailable",
        message=(
            f"the Redis that counts the limit of {name} cannot be reached, and rate_limits.strict rejects "
            "requests meanwhile; try again soon"
        ),
        retry_after_s=1,
        lines=lines,
    )
