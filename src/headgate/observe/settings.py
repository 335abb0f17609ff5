"""The settings of reading engines, which the gateway fills in."""

from __future__ import annotations

import msgspec


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of reading engines; times are in seconds. The gateway's section `engine_metrics` documents
    these settings for users."""

    enabled: bool
    interval_s: float
    """Between two reads of an engine while it is quiet."""
    busy_interval_s: float
    """The same while requests are queued, or may be soon."""
    max_per_s: int
    """Most reads, all processes together."""
    stale_s: float
    """Readings older than this, and than two intervals, are ignored."""
    timeout_s: float
    """For an engine to send its page."""
    path: str
    """Of the metrics page, where the Pod names none."""
    port: int
    """The same; 0 is the port that serves requests."""
    processes: int
    """That look at the same engines."""
