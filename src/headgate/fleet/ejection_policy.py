"""When endpoints are ejected and for how long, as an operator configures it."""

from __future__ import annotations

import msgspec


class EjectionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When endpoints are ejected and for how long; times in seconds."""

    failures: int = 5
    """Consecutive failures that eject an endpoint; 0 disables ejection."""
    base_s: float = 5.0
    """Length of the first ejection. Each further one soon after a return is twice as long."""
    longest_s: float = 300.0
    slow_start_s: float = 10.0
    """How long the traffic of a returning endpoint takes to grow to that of the others."""
    most_percent: int = 50
    """Percentage of a pool that may be ejected at a time; one endpoint always stays."""
    hang_s: float = 30.0
    hang_requests: int = 3
    """This many requests that wait longer than `hang_s`, without any response from the endpoint meanwhile,
    eject it."""
