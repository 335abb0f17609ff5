"""W3C trace context (https://www.w3.org/TR/trace-context/): the trace of a request.

`traceparent`, `tracestate` and `baggage` are forwarded unchanged: the gateway writes no spans, and a proxy
that does not participate must not change them. If configured, it starts traces for requests without one, so
that the spans of engines can be found from its access log.
"""

from __future__ import annotations

import random
import re

_TRACEPARENT = re.compile(
    rb"(?:00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
    rb"|(?!00|ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[ -~]*)?)"
)
"""Version 00 has four parts; later versions may have more, and the known parts are read."""


def trace_id(traceparent: bytes) -> str:
    """The 32 hexadecimal digits of the trace; "" if the header is not valid."""
    found = _TRACEPARENT.fullmatch(traceparent)
    return (found[1] or found[2]).decode() if found is not None else ""


def begin(rng: random.Random) -> bytes:
    """The `traceparent` of a new, sampled trace. Its identifiers are unique, not secret."""
    return b"00-%032x-%016x-01" % (rng.getrandbits(128) or 1, rng.getrandbits(64) or 1)
