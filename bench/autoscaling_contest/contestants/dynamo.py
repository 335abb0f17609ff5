"""NVIDIA Dynamo's planner in its mode for SLAs: a forecast of requests and tokens over measured throughput.

Prefill and decode share an engine here, so their shares of one add up. The forecasts are its constant and its
local trend (a Kalman filter, here with its steady gains). It waits while replicas start.
"""

from __future__ import annotations

import math

from autoscaling_contest.calibration import Calibration
from headgate.simulator.autoscaling import ScaledFleet
from headgate.simulator.model import EngineConfig

LEVEL_GAIN, TREND_GAIN = 0.6, 0.2


class Forecast:
    """The next value of a series by its level and trend."""

    def __init__(self, *, has_trend: bool) -> None:
        self._has_trend = has_trend
        self._level: float | None = None
        self._trend = 0.0

    def next(self, value: float) -> float:
        if self._level is None or not self._has_trend:
            self._level = value
            return value
        expected = self._level + self._trend
        self._level = expected + LEVEL_GAIN * (value - expected)
        self._trend += TREND_GAIN * (value - expected)
        return max(0.0, self._level + self._trend)


class Planner:
    """Adjusts once per interval."""

    def __init__(
        self, engine: EngineConfig, calibration: Calibration, *, interval_s: float, has_trend: bool
    ) -> None:
        self.period_s = interval_s
        self._calibration = calibration
        self._expected_ttft_s = calibration.prompt_tokens * engine.costs.per_prefill_token_s + (
            engine.costs.per_start_s + engine.costs.base_s
        )
        self._requests = Forecast(has_trend=has_trend)
        self._prompts = Forecast(has_trend=has_trend)
        self._outputs = Forecast(has_trend=has_trend)
        self._before = (0, 0, 0, 0, 0, 0.0)

    def desired(self, fleet: ScaledFleet) -> int:
        ledger = fleet.ledger
        now = (
            ledger.arrived,
            ledger.arrived_prompt,
            ledger.finished,
            ledger.finished_output,
            ledger.started,
            ledger.ttft_sum_s,
        )
        arrived, prompt, finished, output, started, ttft_s = (
            after - before for after, before in zip(now, self._before, strict=True)
        )
        self._before = now
        if not arrived:
            return fleet.current
        requests = self._requests.next(arrived)
        prompt_tokens = self._prompts.next(prompt / arrived)
        output_tokens = self._outputs.next(output / finished if finished else self._calibration.output_tokens)
        if fleet.starting:
            return fleet.current
        correction = ttft_s / started / self._expected_ttft_s if started else 1.0
        # Throughput of an engine that does only one of both: the measured rate has a share of each.
        per_s = requests / self.period_s
        share = prompt_tokens / self._calibration.prompt_tokens * min(1.0, correction) + (
            output_tokens / self._calibration.output_tokens
        )
        return max(1, math.ceil(per_s * share / 2.0 / self._calibration.requests_per_s))
