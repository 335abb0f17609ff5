"""A forecast is used only while it is better than none, and never to remove replicas."""

import math
import random

import pytest

from headgate.autoscaling import (
    Bounds,
    Decision,
    History,
    MetricTarget,
    Observation,
    Policy,
    Rate,
    Total,
    decide,
)
from headgate.autoscaling.forecast import Forecast
from headgate.autoscaling.starting import Starts

FREE = Rate(period_s=0.0)
POLICY = Policy((MetricTarget("load", 1.0),), tolerance_percent=0, up=FREE, down=FREE)
DAY_S = 86_400.0


def learned(start_s: float) -> History:
    return History(starts=Starts(durations_s=(start_s,)))


def ramp(now: float) -> float:
    """Up for twenty minutes, down for twenty."""
    phase = now % 2_400
    return 5 + min(phase, 2_400 - phase) / 60


def run(load: list[tuple[float, float]], start_s: float = 120) -> list[Decision]:
    history, current, decisions = learned(start_s), 5, []
    for now, value in load:
        observation = Observation(now, current, current, totals={"load": Total(value)})
        decision, history = decide(POLICY, Bounds(1, 1_000), history, observation)
        current = decision.desired
        decisions.append(decision)
    return decisions


def test_a_steady_rise_is_seen_ahead() -> None:
    load = [(15.0 * i, ramp(15.0 * i)) for i in range(640)]
    decisions = run(load)
    rising = [i for i in range(480, 640) if 600 < load[i][0] % 2_400 < 1_050]
    ahead = [decisions[i].desired - math.ceil(load[i][1]) for i in rising]
    assert min(ahead) >= 1, "replicas come before they are needed"
    assert {decisions[i].rule for i in rising} == {"Forecast"}
    outlook = decisions[-1].outlook
    assert outlook is not None
    assert outlook.method == "trend"
    assert outlook.error is not None
    assert outlook.error_without is not None
    assert outlook.error < outlook.error_without
    assert all(d.desired >= math.ceil(value) for d, (_, value) in zip(decisions, load, strict=True))


@pytest.mark.parametrize("start_s", [30, 90, 300])
def test_noise_turns_the_forecast_off(start_s: float) -> None:
    rng = random.Random(7)
    load = [(15.0 * i, max(rng.gauss(20, 3), 0.0)) for i in range(2_000)]
    decisions = run(load, start_s)
    on = sum(d.outlook is not None and d.outlook.method != "" for d in decisions[500:])
    assert on <= 0.1 * 1_500
    outlook = decisions[-1].outlook
    assert outlook is not None
    assert outlook.error is not None, "its error is shown although it is off"


def test_a_forecast_that_was_right_and_no_longer_is_turns_itself_off_and_on() -> None:
    rng = random.Random(3)
    ramps = [(15.0 * i, ramp(15.0 * i)) for i in range(640)]
    noise = [(15.0 * i, max(rng.gauss(15, 4), 0.0)) for i in range(640, 2_240)]
    again = [(15.0 * i, ramp(15.0 * i)) for i in range(2_240, 3_200)]
    decisions = run(ramps + noise + again)
    methods = [d.outlook.method if d.outlook else "" for d in decisions]
    assert methods[639] == "trend"
    assert methods[2_239] == ""
    assert methods[3_199] == "trend"


def test_the_same_time_of_the_day_before_is_known() -> None:
    """Load that jumps every day at the same time, which no trend shows."""

    def load(now: float) -> float:
        return 20.0 if 9 <= now % DAY_S / 3600 < 17 else 4.0

    forecast, found = Forecast(), []
    for step in range(int(4 * DAY_S / 60)):
        now = 60.0 * step
        forecast = forecast.after(now, load(now), 900)
        if now >= 3 * DAY_S:
            found.append((now % DAY_S, forecast.outlook(900)))
    before = [outlook for at, outlook in found if 8.9 * 3600 <= at < 9 * 3600]
    assert {outlook.method for outlook in before} == {"day"}
    assert min(outlook.needed for outlook in before) > 6


def test_a_long_gap_starts_the_trend_anew() -> None:
    forecast = Forecast()
    for step in range(40):
        forecast = forecast.after(15.0 * step, 1.0 + step, 60)
    assert forecast.slope > 0
    assert forecast.after(5_000.0, 3.0, 60).slope == 0
    assert forecast.after(0.0, 3.0, 60).slope == 0, "also when the clock is set back"


def test_nothing_is_forecast_before_a_start_was_seen() -> None:
    observation = Observation(1.0, 1, 1, totals={"load": Total(1.0)})
    assert decide(POLICY, Bounds(1, 9), History.empty(), observation)[0].outlook is None
