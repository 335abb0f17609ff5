"""When endpoints are ejected and for how long, as an operator sets it."""

from __future__ import annotations

import msgspec


class EjectionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When endpoints are ejected and for how long; times in seconds."""

    failures: int = 5
    """So many failures in a row eject; 0 is never."""
    base_s: float = 5.0
    """The first ejection. Each further one that comes soon after a return is twice as long."""
    longest_s: float = 300.0
    slow_start_s: float = 10.0
    """How long the share of an endpoint that returns takes to grow to that of the others."""
    most_percent: int = 50
    """Of a pool that may be ejected at a time; one endpoint always stays."""
    hang_s: float = 30.0
    hang_requests: int = 3
    """So many requests that wait for longer than `hang_s`, with nothing heard of the endpoint, eject it."""
