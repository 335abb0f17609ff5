"""W3C trace context (https://www.w3.org/TR/trace-context/): the trace of a request, and its place in it."""

from __future__ import annotations

import random
import re
from typing import Final

_TRACEPARENT: Final = re.compile(
    rb"(?:00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})"
    rb"|(?!00|ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-[ -~]*)?)"
)
"""Version 00 has four parts; later versions may have more, and the known parts are read."""
_SAMPLED: Final = 1
LARGEST: Final = (1 << 64) - 1
BITS: Final = 192
"""Random bits for the ids of a new trace; the lowest 64 decide whether it is sampled."""
_STEP: Final = 0x9E3779B97F4A7C15
"""An odd number, so that the ids of a request's spans differ."""


class Trace:
    """The place of one request in a trace. Ids of spans derive from `span_id`: endpoints know their parents
    before there are any spans."""

    __slots__ = ("is_kept", "is_sampled", "parent_id", "span_id", "trace_id")

    def __init__(self, trace_id: bytes, parent_id: int, span_id: int, *, is_sampled: bool) -> None:
        self.trace_id = trace_id
        """32 hexadecimal digits."""
        self.parent_id = parent_id
        """The client's span; 0 if the trace begins here."""
        self.span_id = span_id
        """The span of the request."""
        self.is_sampled = is_sampled
        """Whether the endpoints are told to record their spans."""
        self.is_kept = is_sampled
        """Whether its spans are exported: it was sampled, or is kept because of how it ended."""

    def child_id(self, place: int) -> int:
        """The id of another span of the request; `place` is at least 1."""
        return (self.span_id + place * _STEP) & LARGEST or 1

    def traceparent(self, place: int = 0) -> bytes:
        """The header for an endpoint; `place`: its parent among the spans of the request."""
        span_id = self.child_id(place) if place else self.span_id
        return b"00-%b-%016x-%b" % (self.trace_id, span_id, b"01" if self.is_sampled else b"00")

    def response_line(self) -> bytes:
        """The header line that tells a client its trace."""
        return b"x-headgate-trace-id: %b\r\n" % self.trace_id


def continued(traceparent: bytes, rng: random.Random) -> Trace | None:
    """The place of a request in the trace of its client; None if the header is not valid. `is_sampled` is the
    client's choice."""
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None:
        return None
    trace_id, parent_id, flags = found[1], found[2], found[3]
    if trace_id is None:
        trace_id, parent_id, flags = found[4], found[5], found[6]
    is_sampled = bool(int(flags, 16) & _SAMPLED)
    return Trace(trace_id, int(parent_id, 16), rng.getrandbits(64) or 1, is_sampled=is_sampled)


def text(ids: int) -> bytes:
    """The ids of a new trace in 48 hexadecimal digits: of its first span, then its own. `ids` are random
    bits, so that neither is ever 0; they are unique, not secret."""
    return b"%048x" % ids


def begun(ids: bytes, *, is_sampled: bool) -> Trace:
    """The place of a request in a trace of its own; `ids` as from `text`."""
    return Trace(ids[16:], 0, int(ids[:16], 16), is_sampled=is_sampled)


def sampling_bound(ratio: float) -> int:
    """The bound for this ratio of traces, as OpenTelemetry's TraceIdRatioBased has it."""
    return round(ratio * (LARGEST + 1))


def sampled(trace_id: bytes, bound: int) -> bool:
    """Whether a trace is sampled by its id: all that have the same ratio agree."""
    return int(trace_id[16:], 16) < bound


def trace_id(traceparent: bytes) -> str:
    """The 32 hexadecimal digits of the trace; "" if the header is not valid."""
    found = _TRACEPARENT.fullmatch(traceparent)
    return (found[1] or found[4]).decode() if found is not None else ""


def begin(rng: random.Random) -> bytes:
    """The `traceparent` of a new, sampled trace, for a gateway that exports no spans."""
    return b"00-%032x-%016x-01" % (rng.getrandbits(128) or 1, rng.getrandbits(64) or 1)
