"""How often an engine is read: rarely when idle, often when its queue is about to matter.

A page costs the engine more than the gateway, on the thread that serves requests. So the pace also depends on
how long the engine takes for a page. Reads take turns, up to a number per second.
"""

from __future__ import annotations

import msgspec

from headgate.fleet import EngineReading

CALM_KV_USAGE = 0.5
TENSE_KV_USAGE = 0.9
"""With this KV cache usage, an engine is about to queue requests."""
ENGINE_SHARE = 0.05
"""Share of an engine's time that pages may take."""
READER_SHARE = 0.002
"""Share of the gateway's time for parsing those of one engine: a typical page takes 0.1 ms."""
LONGEST_S = 30.0
"""Interval for an engine that fails or has no page."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the interval between two reads of one engine, in seconds."""

    rest_s: float
    """Interval of an idle engine."""
    quick_s: float
    """Interval while requests are queued."""
    lookers: int = 1
    """Processes that read the same engines."""
    round_s: float = 0.0
    """Time until each engine has had a turn, if all want one."""
    old_s: float = 5.0
    """Readings of this age are relied on in any case."""

    def after(
        self,
        reading: EngineReading | None,
        took_s: float,
        read_s: float = 0.0,
        *,
        is_waited_for: bool = False,
    ) -> float:
        """Seconds until the next read, after one that took `took_s`, with `read_s` of the gateway's CPU time,
        and returned `reading`. `is_waited_for`: requests are queued in the gateway for this engine, which
        does not know about them."""
        quick_s = min(self.quick_s, self.rest_s)
        wanted_s: float = self.rest_s * (quick_s / self.rest_s) ** (
            1.0 if is_waited_for else pressure(reading)
        )
        spared_s = max(took_s * self.lookers / ENGINE_SHARE, read_s / READER_SHARE)
        return max(wanted_s, min(spared_s, LONGEST_S))

    def after_failures(self, failures: int) -> float:
        """Seconds until the next read, after `failures` consecutive failures."""
        doubled_s: float = self.rest_s * 2.0 ** min(failures, 16)
        return max(min(doubled_s, LONGEST_S), self.rest_s)

    @property
    def stale_s(self) -> float:
        """After so long without a new reading, reads have failed or take too long."""
        return max(self.old_s, 2.0 * (self.rest_s + self.round_s))


def pressure(reading: EngineReading | None) -> float:
    """How close an engine is to queueing requests: 0 when idle, 1 if it does."""
    if reading is None:
        return 0.0
    if reading.waiting:
        return 1.0
    usage = reading.kv_usage or 0.0
    return min(max((usage - CALM_KV_USAGE) / (TENSE_KV_USAGE - CALM_KV_USAGE), 0.0), 1.0)
