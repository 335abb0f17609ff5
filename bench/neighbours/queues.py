"""The queues of the contest, by their names in the table."""

from __future__ import annotations

from headgate.flow.queue import BandSettings, FlowSettings, WindowSettings

_ENDLESS = 1_000_000_000_000
WINDOW_S = 300.0


def _queue(fairness: str) -> FlowSettings:
    """All requests wait as long as needed: late service must not look better than rejection."""
    return FlowSettings(
        ttl_s=0,
        max_requests=0,
        max_bytes=0,
        band=BandSettings(max_requests=0, max_bytes=0, fairness=fairness),  # type: ignore[arg-type]
        window=WindowSettings(window_s=WINDOW_S),
    )


QUEUES: dict[str, FlowSettings | None] = {
    "headgate": _queue("deficit-round-robin"),
    "FCFS": _queue("global-strict-fairness-policy"),
    "round-robin": _queue("round-robin-fairness-policy"),
    "Kthena least-served": _queue("windowed-usage"),
    "llm-d program-aware": _queue("program-aware-fairness"),
    "no queue": None,
}
