"""W3C trace context (https://www.w3.org/TR/trace-context/): whose trace a request belongs to.

`traceparent`, `tracestate` and `baggage` are passed on as they came: the gateway writes no spans, and a
proxy that takes no part must not change them. Where it is told to, it begins traces for requests without one,
so that the spans of engines can be found from its access log.
"""

from __future__ import annotations

import random
import re

_TRACEPARENT = re.compile(
    rb"(?:00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
    rb"|(?!00|ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[ -~]*)?)"
)
"""Version 00 has four parts; later ones may have more, and are read as far as they are known."""


def trace_id(traceparent: bytes) -> str:
    """The 32 hexadecimal digits of the trace; "" if the header is not valid."""
    found = _TRACEPARENT.fullmatch(traceparent)
    return (found[1] or found[2]).decode() if found is not None else ""


def begin(rng: random.Random) -> bytes:
    """The `traceparent` of a new trace, which is to be recorded. Its identifiers are unique, not secret."""
    return b"00-%032x-%016x-01" % (rng.getrandbits(128) or 1, rng.getrandbits(64) or 1)
