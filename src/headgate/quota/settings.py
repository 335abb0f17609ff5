"""The settings of shared limits, which the gateway fills in."""

from __future__ import annotations

import msgspec


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of shared limits. The gateway's section `rate_limits` documents these settings for users."""

    is_strict: bool
    """Whether requests are rejected while the Redis of their limit cannot be reached."""
    wait_s: float
    """Longest time that a request waits for Redis."""
    gateways: int
    """Fewest gateway processes that a limit is divided among until Redis reports how many there are."""
    redis_hosts: tuple[str, ...]
    """The only ones that routes may name, and that get the password; empty for any, without the password."""
    redis_tls: bool
    redis_ca_file: str | None
    """CA certificates to verify Redis with; None for those of the system."""
