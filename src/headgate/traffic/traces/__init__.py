"""Traffic to replay: the requests that real fleets received, and when.

Takes the lines of a trace file in one of the published formats; returns timed requests in order of arrival,
or every error in the file with its line. Traffic can also be generated (`headgate.traffic.workloads`).
Pure: the caller reads the files.
"""

from headgate.traffic.traces.arrivals import Arrivals, arrange, grid_s, mean_rate
from headgate.traffic.traces.curves import RateCurve, follow, read_curve
from headgate.traffic.traces.formats import FORMATS, Azure, BurstGpt, Mooncake, TraceFormat, detect
from headgate.traffic.traces.lines import MAX_LINE_BYTES, Problem, TraceError, requests
from headgate.traffic.traces.timed import (
    TOKEN_S,
    Sessions,
    TimedRequest,
    ideal_hit_rate,
    in_turn,
    with_sessions,
)

__all__ = [
    "FORMATS",
    "MAX_LINE_BYTES",
    "TOKEN_S",
    "Arrivals",
    "Azure",
    "BurstGpt",
    "Mooncake",
    "Problem",
    "RateCurve",
    "Sessions",
    "TimedRequest",
    "TraceError",
    "TraceFormat",
    "arrange",
    "detect",
    "follow",
    "grid_s",
    "ideal_hit_rate",
    "in_turn",
    "mean_rate",
    "read_curve",
    "requests",
    "with_sessions",
]
