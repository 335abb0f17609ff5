import math

import pytest

from headgate.simulator.fleet import EngineRecord, FleetRun, RequestRecord, Slo
from headgate.simulator.fleet.summary import percentiles


def record(number, first_token_s=None, outcome="served", ended_s=10.0, **more):
    return RequestRecord(
        **{
            "number": number,
            "arrived_s": float(number),
            "ended_s": ended_s,
            "outcome": outcome,
            "endpoint": "e-0",
            "attempts": 1,
            "prompt_tokens": 100,
            "output_tokens": 11,
            "first_token_s": first_token_s,
            **more,
        }
    )


def test_percentiles_are_values_that_occurred():
    """By nearest rank, of those that are there."""
    figures = percentiles([None, *(float(value) for value in range(100, 0, -1))])
    assert (figures.p50, figures.p90, figures.p95, figures.p99, figures.max) == (50, 90, 95, 99, 100)
    assert figures.mean == 50.5
    assert math.isnan(percentiles([]).p50)


def test_goodput_counts_what_was_served_within_the_slo():
    """Refused and failed requests count against it; both bounds must hold."""
    run = FleetRun(
        records=(
            record(0, 1.0, ended_s=2.0, cached_tokens=50),
            record(1, 5.0),
            record(2, 3.0, ended_s=13.0),
            record(3, outcome="refused"),
            record(4, outcome="failed", attempts=2),
        ),
        engines=(),
        ended_s=13.0,
    )
    summary = run.summary(Slo(ttft_s=2.0, tpot_s=0.5))
    assert summary.slo_share == pytest.approx(1 / 5)
    assert summary.goodput_per_s == pytest.approx(1 / 4)
    assert (summary.served, summary.refused, summary.failed, summary.retried) == (3, 1, 1, 1)
    assert summary.hit_rate == pytest.approx(50 / 300)
    assert run.summary(Slo(ttft_s=2.0)).slo_share == pytest.approx(2 / 5)


def test_a_run_without_requests_has_a_summary():
    """Nothing is divided by zero."""
    summary = FleetRun(records=(), engines=(), ended_s=0.0).summary()
    assert (summary.requests, summary.slo_share, summary.imbalance) == (0, 0.0, 1.0)


def test_imbalance_is_the_busiest_over_the_mean(idle):
    """2 of equal work are 1; all work on one of two is 2."""
    engines = tuple(
        EngineRecord(name=name, group="e", requests=requests, busy_s=busy_s, statistics=idle)
        for name, requests, busy_s in (("a", 3, 8.0), ("b", 1, 4.0))
    )
    summary = FleetRun(records=(), engines=engines, ended_s=0.0).summary()
    assert summary.imbalance == pytest.approx(8 / 6)
    assert summary.request_imbalance == pytest.approx(1.5)
