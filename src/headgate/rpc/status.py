"""gRPC status codes, and the text forms of statuses and timeouts in headers.

Source: the specification "gRPC over HTTP2" (PROTOCOL-HTTP2.md of grpc/grpc).
"""

from __future__ import annotations

import math
import re
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

OK: Final = 0
CANCELLED: Final = 1
UNKNOWN: Final = 2
INVALID_ARGUMENT: Final = 3
DEADLINE_EXCEEDED: Final = 4
NOT_FOUND: Final = 5
PERMISSION_DENIED: Final = 7
RESOURCE_EXHAUSTED: Final = 8
FAILED_PRECONDITION: Final = 9
UNIMPLEMENTED: Final = 12
INTERNAL: Final = 13
UNAVAILABLE: Final = 14
UNAUTHENTICATED: Final = 16

NAMES: Final = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)
MAX_MESSAGE_BYTES: Final = 1024
"""Of a status message, before it is encoded: clients limit the size of headers."""
_MAX_TIMEOUT: Final = 99_999_999
_UNITS_S: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_TIMEOUT = re.compile(rb"([0-9]{1,8})([HMSmun])")
_ENCODED = re.compile(rb"[^ -$&-~]")


class Status(NamedTuple):
    """How a call ended."""

    code: int
    message: str = ""
    is_unprocessed: bool = False
    """Whether the server has certainly not seen the call, so that it may be sent again."""

    def __str__(self) -> str:
        name = NAMES[self.code] if self.code < len(NAMES) else f"status {self.code}"
        return f"{name}: {self.message}" if self.message else name


def encoded(message: str) -> bytes:
    """A status message as header value: percent-encoded UTF-8."""
    data = message.encode("utf-8", "replace")[:MAX_MESSAGE_BYTES]
    return _ENCODED.sub(lambda found: b"%%%02X" % found[0][0], data)


def decoded(value: bytes) -> str:
    """The message of a header value; malformed parts are shown as they are."""
    return unquote_to_bytes(value).decode("utf-8", "replace")


def read_timeout_s(value: bytes) -> float:
    """Seconds of a `grpc-timeout` header. Raises ValueError."""
    found = _TIMEOUT.fullmatch(value)
    if found is None:
        raise ValueError(f"grpc-timeout is {value[:20]!r}: up to 8 digits and one of H, M, S, m, u, n")
    return int(found[1]) * _UNITS_S[found[2]]


def timeout_header(seconds: float) -> bytes:
    """The `grpc-timeout` header for a positive number of seconds, rounded up."""
    for unit, factor in ((b"u", 1e6), (b"m", 1e3), (b"S", 1.0)):
        count = math.ceil(seconds * factor)
        if count <= _MAX_TIMEOUT:
            return b"%d%b" % (max(count, 1), unit)
    return b"%dS" % _MAX_TIMEOUT
