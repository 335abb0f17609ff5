"""Judging a replay: what became of each request, and what that makes a policy worth.

Is given the outcomes of a run over a fleet in virtual time, and hands on a summary (latencies, goodput, hit
rate, balance), the run over time, and the highest rate that a fleet carries. Pure.
"""

from headgate.simulator.replay.outcome import Outcome, Slo, Status
from headgate.simulator.replay.search import Found, highest_rate
from headgate.simulator.replay.series import Series, series
from headgate.simulator.replay.summary import (
    EndpointWork,
    Goodput,
    Spread,
    Summary,
    ideal_hit_rate,
    percentile,
    spread,
    summarize,
)

__all__ = [
    "EndpointWork",
    "Found",
    "Goodput",
    "Outcome",
    "Series",
    "Slo",
    "Spread",
    "Status",
    "Summary",
    "highest_rate",
    "ideal_hit_rate",
    "percentile",
    "series",
    "spread",
    "summarize",
]
