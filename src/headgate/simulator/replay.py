"""Evaluate replays: a run over time, and the highest rate that a fleet sustains.

Takes the records of runs over a fleet in virtual time. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from headgate.simulator.fleet import RequestRecord
from headgate.simulator.fleet.summary import percentiles

__all__ = ["Found", "Series", "highest_rate", "series"]

# The highest sustainable rate, found by doubling, halving and bisection.
_MAX_DOUBLINGS = 12


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """`rate_per_s` is the highest rate tried that met the target; 0 if none did."""

    rate_per_s: float
    tried: list[tuple[float, float]]
    """Each rate tried with its share of requests in time, in order."""


def highest_rate(
    attainment: Callable[[float], float], start: float, target: float, precision: float
) -> Found:
    """The highest rate whose `attainment` is at least `target`, to a relative `precision`.

    Assumes that attainment falls as the rate grows, which holds except for noise near the target. The search
    begins at `start`, and doubles or halves it at most twelve times, until two rates enclose the result.
    """
    tried: list[tuple[float, float]] = []

    def carries(rate: float) -> bool:
        tried.append((rate, attainment(rate)))
        return tried[-1][1] >= target

    low, high = 0.0, 0.0
    rate = start
    for _ in range(_MAX_DOUBLINGS):
        if carries(rate):
            low = rate
            rate = 2 * rate
        else:
            high = rate
            rate = rate / 2
        if low and high:
            break
    while low and high and high - low > precision * low:
        middle = (low + high) / 2
        if carries(middle):
            low = middle
        else:
            high = middle
    return Found(rate_per_s=low, tried=tried)


# A run over time, in windows of equal length, for plots and the JSON document.
WINDOWS = 60
"""Enough for a visible curve, with enough requests in each window."""


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One value per window; None if no request arrived in it. Requests count where they arrived."""

    window_s: float
    ttft_p50_s: list[float | None]
    ttft_p90_s: list[float | None]
    hit_rate: list[float | None]
    in_flight: dict[str, list[float]]
    """Mean requests of each endpoint in each window. A prefill endpoint counts until the first token."""


def series(records: Sequence[RequestRecord], endpoints: Sequence[str], windows: int = WINDOWS) -> Series:
    """Windows from 0 to the end of the last request; `endpoints` are the names of all endpoints."""
    ended_s = max((record.ended_s for record in records), default=0.0)
    window_s = ended_s / windows if ended_s else 1.0
    arrived: list[list[RequestRecord]] = [[] for _ in range(windows)]
    in_flight = {name: [0.0] * windows for name in endpoints}
    for record in records:
        arrived[_window(record.arrived_s, window_s, windows)].append(record)
        begins_s = record.arrived_s
        if record.prefill_endpoint:
            begins_s = record.ended_s if record.first_token_s is None else record.first_token_s
            _add(in_flight[record.prefill_endpoint], record.arrived_s, begins_s, window_s)
        if record.endpoint:
            _add(in_flight[record.endpoint], begins_s, record.ended_s, window_s)
    times = [[record.ttft_s for record in each if record.ttft_s is not None] for each in arrived]
    return Series(
        window_s=window_s,
        ttft_p50_s=[percentiles(each).p50 if each else None for each in times],
        ttft_p90_s=[percentiles(each).p90 if each else None for each in times],
        hit_rate=[_hit_rate(each) for each in arrived],
        in_flight=in_flight,
    )


def _window(at_s: float, window_s: float, windows: int) -> int:
    return min(int(at_s / window_s), windows - 1)


def _add(held: list[float], from_s: float, to_s: float, window_s: float) -> None:
    """Add one request to each window, weighted by the share of the window that it overlaps."""
    first, last = (_window(at_s, window_s, len(held)) for at_s in (from_s, to_s))
    for window in range(first, last + 1):
        begins_s = window * window_s
        held[window] += max(0.0, min(to_s, begins_s + window_s) - max(from_s, begins_s)) / window_s


def _hit_rate(records: Sequence[RequestRecord]) -> float | None:
    served = [record for record in records if record.outcome == "served"]
    tokens = sum(record.prompt_tokens for record in served)
    return sum(record.cached_tokens for record in served) / tokens if tokens else None
