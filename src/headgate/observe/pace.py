"""How often an engine is looked at: seldom at rest, often where its queue is about to matter.

A page costs the engine more than it costs the gateway, on the thread that serves its requests. So the pace is
also bounded by how long the engine takes for a page. And looks take turns, at most so many in a second.
"""

from __future__ import annotations

import msgspec

from headgate.fleet import EngineReading

CALM_KV_USAGE = 0.5
TENSE_KV_USAGE = 0.9
"""At this much of its cache in use, an engine is about to queue requests."""
ENGINE_SHARE = 0.05
"""How much of an engine's time may go into pages."""
READER_SHARE = 0.002
"""How much of the gateway's time may go into reading those of one engine: a usual page takes 0.1 ms."""
LONGEST_S = 30.0
"""Between looks at an engine that fails, or that has no page."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of the time between two looks at one engine, in seconds."""

    rest_s: float
    """Where nothing presses."""
    quick_s: float
    """Where requests wait."""
    lookers: int = 1
    """Processes that look at the same engines."""
    round_s: float = 0.0
    """How long it takes until each engine has had a turn, if all want one."""
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
        """Until the next look, after one that took `took_s`, of which `read_s` of the gateway's CPU time, and
        came to `reading`; requests may wait for the engine in the gateway, of which it knows nothing."""
        quick_s = min(self.quick_s, self.rest_s)
        wanted_s: float = self.rest_s * (quick_s / self.rest_s) ** (
            1.0 if is_waited_for else pressure(reading)
        )
        spared_s = max(took_s * self.lookers / ENGINE_SHARE, read_s / READER_SHARE)
        return max(wanted_s, min(spared_s, LONGEST_S))

    def after_failures(self, failures: int) -> float:
        """Until the next look, after so many in a row without success."""
        doubled_s: float = self.rest_s * 2.0 ** min(failures, 16)
        return max(min(doubled_s, LONGEST_S), self.rest_s)

    @property
    def stale_s(self) -> float:
        """After this long without a new reading, looks have failed or take too long."""
        return max(self.old_s, 2.0 * (self.rest_s + self.round_s))


def pressure(reading: EngineReading | None) -> float:
    """How near an engine is to making requests wait: 0 at rest, 1 where they do."""
    if reading is None:
        return 0.0
    if reading.waiting:
        return 1.0
    usage = reading.kv_usage or 0.0
    return min(max((usage - CALM_KV_USAGE) / (TENSE_KV_USAGE - CALM_KV_USAGE), 0.0), 1.0)
