"""Replicas serve after their cold start, and go when their requests have ended; both cost."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.autoscaling import Bounds, MetricTarget, Policy, Rate
from headgate.simulator.autoscaling import Setting, replay, replay_policy, reversals, windows, work_of
from headgate.simulator.fleet import Slo
from headgate.simulator.model import PROFILES
from headgate.traffic.traces import TimedRequest

ENGINE = PROFILES["8b-h100"].config
SLO = Slo(ttft_s=2.0, tpot_s=0.1)


class Plan:
    """Wants what a plan says, by slots of 10 s; the last number stays."""

    period_s = 10.0

    def __init__(self, *replicas):
        self._replicas = replicas

    def desired(self, fleet):
        return self._replicas[min(round(fleet.now / 10), len(self._replicas) - 1)]


def requests(rate, seconds, seed=1):
    rng = random.Random(seed)
    at_s, made = 0.0, []
    while (at_s := at_s + rng.expovariate(rate)) < seconds:
        made.append(TimedRequest(at_s=at_s, prompt_tokens=rng.randint(10, 2000), output_tokens=200))
    return work_of(made)


def setting(cold_start_s=30.0, begins_with=1):
    return Setting(ENGINE, cold_start_s, SLO, begins_with=begins_with)


def test_a_replica_serves_after_its_cold_start():
    """It counts as starting until then, and its hours from the decision on."""
    run = replay(requests(1.0, 120), Plan(1, 1, 3), setting())
    by_time = {moment.at_s: moment for moment in run.moments}
    assert (by_time[19].ready, by_time[19].starting) == (1, 0)
    assert (by_time[20].ready, by_time[20].starting) == (1, 2)
    assert (by_time[49].ready, by_time[49].starting) == (1, 2)
    assert (by_time[50].ready, by_time[50].starting) == (3, 0)
    ends_s = run.moments[-1].at_s
    assert run.replica_hours == pytest.approx((ends_s + 2 * (ends_s - 20)) / 3600)
    assert run.starts == 2


def test_a_replica_drains():
    """It serves its requests to their ends, and gets no new ones."""
    run = replay(requests(3.0, 120), Plan(3, 3, 3, 1), setting(begins_with=3))
    by_time = {moment.at_s: moment for moment in run.moments}
    assert (by_time[30].ready, by_time[30].draining) == (1, 2)
    assert run.moments[-1].draining == 0
    assert all(ended_s == ended_s for ended_s in run.ledger.ended_s)


def test_a_start_is_taken_back_first():
    """What is not ready yet goes before what serves."""
    run = replay(requests(1.0, 60), Plan(1, 4, 2), setting())
    by_time = {moment.at_s: moment for moment in run.moments}
    assert (by_time[10].ready, by_time[10].starting) == (1, 3)
    assert (by_time[20].ready, by_time[20].starting, by_time[20].draining) == (1, 1, 0)


def test_requests_wait_for_the_first_replica():
    """They are held while there is none, and served in order."""
    works = requests(1.0, 60)
    run = replay(works, Plan(2), Setting(ENGINE, 45.0, SLO, begins_with=0))
    assert min(run.ledger.first_s) > 45.0
    assert run.moments[44].waiting > 30


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=12),
    st.floats(0.0, 60.0),
    st.floats(0.2, 6.0),
    st.integers(0, 1000),
)
def test_every_request_ends_once(plan, cold_start_s, rate, seed):
    """Whatever the controller does: nothing is lost, and times are in order."""
    works = requests(rate, 90, seed)
    run = replay(works, Plan(*plan, 2), setting(cold_start_s))
    assert run.ledger.finished == run.ledger.started == run.ledger.arrived == len(works)
    for work in works:
        first_s, ended_s = run.ledger.first_s[work.number], run.ledger.ended_s[work.number]
        assert work.at_s < first_s <= ended_s
    for moment in run.moments:
        assert moment.ready + moment.starting == moment.desired


def test_a_policy_follows_the_load():
    """With the work per second as its metric, from one replica to those that are needed."""
    works = requests(6.0, 300)
    policy = Policy(metrics=(MetricTarget("headgate:work_seconds", 0.7),), down=Rate(window_s=60.0))
    run, decisions = replay_policy(works, policy, Bounds(1, 20), setting())
    assert run.moments[0].desired == 1
    assert 3 <= run.moments[-1].desired <= 8
    assert {decision.metric for decision in decisions} == {"headgate:work_seconds"}
    shown = windows(run, 10)
    assert len(shown) == 10
    assert sum(each.arrivals_per_s * each.seconds for each in shown) == pytest.approx(len(works), abs=10)
    assert shown[-1].attainment > 0.9 > shown[0].attainment


def test_reversals_count_turns():
    assert reversals([1, 2, 3, 3, 2, 1, 2]) == 2
    assert reversals([5, 5, 5]) == 0
    assert reversals([]) == 0
