"""Retry-After of an endpoint's response: seconds, or an HTTP date."""

from __future__ import annotations

import math
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.requests.client import Header

STATUSES = frozenset({429, 503})
"""Statuses with which an endpoint may ask for fewer requests."""
_NAME = b"retry-after"
_MAX_DIGITS = 9
_LONGEST_S = 10.0**_MAX_DIGITS
"""What any longer time counts as: about 30 years."""


def seconds(headers: list[Header]) -> float | None:
    """How long the endpoint wants no requests. None if its header is missing or invalid, or says less than a
    second, which must not excuse an endpoint that fails.

    A date is compared with that of the response, as the two clocks may differ.
    """
    after_s = _seconds(headers, _value(headers, _NAME))
    return after_s if after_s >= 1.0 else None


def _seconds(headers: list[Header], value: bytes) -> float:
    if value.isdigit():
        return float(value) if len(value) <= _MAX_DIGITS else _LONGEST_S
    at = _date(value)
    return 0.0 if at is None else at - (_date(_value(headers, b"date")) or time.time())


def replaced(headers: list[Header], after_s: float) -> list[Header]:
    """The headers with a Retry-After of this many seconds, rounded up."""
    told = b"%d" % max(math.ceil(round(after_s, 3)), 0)
    return [(name, told if name == _NAME else value) for name, value in headers]


def _value(headers: list[Header], wanted: bytes) -> bytes:
    return next((value.strip() for name, value in headers if name == wanted), b"")


def _date(value: bytes) -> float | None:
    try:
        return parsedate_to_datetime(value.decode("ascii")).timestamp()
    except (ValueError, OverflowError):
        return None
