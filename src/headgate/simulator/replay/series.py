"""How a run went over time, in windows of equal length: for plots, and for whoever reads the JSON."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headgate.simulator.replay.outcome import Outcome
from headgate.simulator.replay.summary import spread

WINDOWS = 60
"""So many make a curve that can be seen, with enough requests in each."""


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One value for each window; None where no request arrived in it. Requests count where they arrived."""

    window_s: float
    ttft_p50_s: list[float | None]
    ttft_p90_s: list[float | None]
    hit_rate: list[float | None]
    in_flight: list[list[float]]
    """For each endpoint: requests that it had, on average over the window."""


def series(outcomes: Sequence[Outcome], endpoints: int, windows: int = WINDOWS) -> Series:
    """The windows reach from 0 to the end of the last request."""
    ended_s = max((outcome.ended_s for outcome in outcomes), default=0.0)
    window_s = ended_s / windows if ended_s else 1.0
    arrived: list[list[Outcome]] = [[] for _ in range(windows)]
    in_flight = [[0.0] * windows for _ in range(endpoints)]
    for outcome in outcomes:
        arrived[_window(outcome.request.at_s, window_s, windows)].append(outcome)
        if outcome.endpoint is not None:
            _add(in_flight[outcome.endpoint], outcome.request.at_s, outcome.ended_s, window_s)
    spreads = [spread(outcome.ttft_s for outcome in each) for each in arrived]
    return Series(
        window_s=window_s,
        ttft_p50_s=[each.p50 for each in spreads],
        ttft_p90_s=[each.p90 for each in spreads],
        hit_rate=[_hit_rate(each) for each in arrived],
        in_flight=in_flight,
    )


def _window(at_s: float, window_s: float, windows: int) -> int:
    return min(int(at_s / window_s), windows - 1)


def _add(held: list[float], from_s: float, to_s: float, window_s: float) -> None:
    """One request more in each window, by the share of it that the request was there."""
    first, last = (_window(at_s, window_s, len(held)) for at_s in (from_s, to_s))
    for window in range(first, last + 1):
        begins_s = window * window_s
        held[window] += max(0.0, min(to_s, begins_s + window_s) - max(from_s, begins_s)) / window_s


def _hit_rate(outcomes: Sequence[Outcome]) -> float | None:
    served = [outcome for outcome in outcomes if outcome.status == "served"]
    tokens = sum(outcome.request.prompt_tokens for outcome in served)
    return sum(outcome.cached_tokens for outcome in served) / tokens if tokens else None
