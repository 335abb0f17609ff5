"""Work that other gateways report is in their reports and in the engine's metrics, and counts once."""

import pytest

from headgate import fleet, routing
from headgate.fleet.elsewhere import NOTHING, Elsewhere

POD = routing.Endpoint("default/pod-0", "127.0.0.1", 8000)
TOKEN_S = 1e-4


def state():
    load = fleet.Ledger().load(POD)
    load.estimator.rates = fleet.Rates(TOKEN_S, 0.0)
    return load


def reading(at, waiting, running):
    return fleet.EngineReading(at=at, waiting=waiting, running=running)


def other(requests=3, owed_tokens=6000, since=0.0, **figures):
    return Elsewhere(requests=requests, owed_tokens=owed_tokens, head_tokens=2000, since=since, **figures)


def test_requests_that_are_reported_are_no_strangers():
    """An engine that shows three requests, all of them reported, has nothing else to do."""
    load = state()
    load.report(other(), 0.0)
    assert load.estimator.queue_s(0.0) == pytest.approx(0.6)
    load.read(reading(0.0, 2, 1))
    assert load.estimator.queue_s(0.0) == pytest.approx(0.6)


def test_a_report_may_come_after_the_reading():
    """What the metrics page showed before it was reported counts as a stranger's only until then."""
    load = state()
    load.read(reading(0.0, 2, 1))
    usual_s = 2 * 1000 * TOKEN_S
    assert load.estimator.queue_s(0.0) == pytest.approx(usual_s)
    load.report(other(), 0.0)
    assert load.estimator.queue_s(0.0) == pytest.approx(0.6)


def test_strangers_still_count():
    """Requests that nobody reports are assumed to be as long as usual."""
    load = state()
    load.report(other(requests=1, owed_tokens=2000), 0.0)
    load.read(reading(0.0, 3, 0))
    assert load.estimator.queue_s(0.0) == pytest.approx(0.2 + 2 * 1000 * TOKEN_S)


def test_own_prompts_wait_behind_reported_ones():
    """Both queues are served one after the other, from the last first token that anybody saw."""
    load = state()
    load.report(other(since=0.9), 1.0)
    load.book(1000, 10, 1.0)
    assert load.estimator.queue_s(1.0) == pytest.approx(0.9 - 1.0 + 0.6 + 0.1001, abs=1e-3)
    load.report(other(owed_tokens=4000, since=1.1), 1.1)
    assert load.estimator.queue_s(1.1) == pytest.approx(0.4 + 0.1001, abs=1e-3)


def test_reported_prompts_that_are_late_are_expected_to_stay_late():
    """An engine that has stopped looks worse the longer no member sees a first token."""
    load = state()
    load.report(other(owed_tokens=2000), 0.0)
    assert load.estimator.queue_s(0.1) == pytest.approx(0.1)
    assert load.estimator.queue_s(1.2) == pytest.approx(1.0)


def test_the_usual_pause_is_that_of_all_gateways():
    """Prompts of others shorten the interval between arrivals."""
    load = state()
    for at in (0.0, 1.0):
        load.book(100, 10, at)
    assert load.estimator.arrivals.pause_s == 1.0
    load.estimator.report_served(3, 0)
    load.book(100, 10, 2.0)
    assert load.estimator.arrivals.pause_s == 0.25


def test_rates_are_learned_beside_others():
    """What the engine prefilled for others between two first tokens is not blamed on ours."""
    load = state()
    now = 0.0
    for _ in range(200):
        load.report(other(owed_tokens=3000, since=now, begun=0), now)
        booking = load.book(3000, 10, now)
        now += 6000 * 2 * TOKEN_S  # at half of the speed that is believed at first
        load.estimator.report_served(1, 3000)
        load.report(other(owed_tokens=0, since=now - 0.6), now)
        booking.first_token(now)
        booking.end(now)
        load.report(NOTHING, now)
    assert load.estimator.rates.observations > 0
    assert load.estimator.rates.token_s == pytest.approx(2 * TOKEN_S, rel=0.1)


def test_members_count_for_limits_and_policies():
    """Policies and limits see all requests in flight; gauges see those of this gateway."""
    load = state()
    load.report(other(decoding=2, begun=2, prefill_tokens=6000), 0.0)
    load.book(100, 10, 0.0)
    assert (load.requests, load.own_requests, load.decoding, load.prefill_tokens) == (4, 1, 2, 6100)
    load.report(NOTHING, 1.0)
    assert (load.requests, load.own_requests, load.decoding, load.prefill_tokens) == (1, 1, 0, 100)
